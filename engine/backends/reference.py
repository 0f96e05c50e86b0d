"""The oracle: RFC 8439 and draft-irtf-cfrg-xchacha-03 in plain Python integers. Slow, and not constant-time."""

from __future__ import annotations

import hmac
import struct
import threading
from typing import TYPE_CHECKING, Self

from engine.backends import arguments
from engine.backends.framing import CheckedAead
from engine.backends.state import BLOCK_SIZE, PRIME, State, pack, unpack
from engine.errors import InvalidTag
from engine.protocol import (
    CHACHA20_NONCE_SIZE,
    HCHACHA20_NONCE_SIZE,
    KEY_SIZE,
    TAG_SIZE,
    XCHACHA20_NONCE_SIZE,
    MacKey,
    Poly1305,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
_WORD = 0xFFFFFFFF
_CLAMP = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
_CHACHA20_BLOCK_SIZE = 64
FINISHED = "the MAC is finished: one key makes one tag"


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def _permuted(state: list[int]) -> list[int]:
    """Ten double rounds, without adding the input (RFC 8439, 2.3)."""
    x = list(state)
    for _ in range(10):
        for a, b, c, d in _COLUMNS + _DIAGONALS:
            x[a] = x[a] + x[b] & _WORD
            x[d] = _rotated(x[d] ^ x[a], 16)
            x[c] = x[c] + x[d] & _WORD
            x[b] = _rotated(x[b] ^ x[c], 12)
            x[a] = x[a] + x[b] & _WORD
            x[d] = _rotated(x[d] ^ x[a], 8)
            x[c] = x[c] + x[d] & _WORD
            x[b] = _rotated(x[b] ^ x[c], 7)
    return x


def chacha20_block(key: bytes, nonce: bytes, counter: int) -> bytes:
    """One 64-byte block of keystream (RFC 8439, 2.3); key: 32 bytes, nonce: 12."""
    state = [*_CONSTANTS, *struct.unpack("<8I", key), counter, *struct.unpack("<3I", nonce)]
    return struct.pack("<16I", *(a + b & _WORD for a, b in zip(state, _permuted(state), strict=True)))


def chacha20_keystream(key: bytes, nonce: bytes, size: int, counter: int = 0) -> bytes:
    blocks = -(-size // _CHACHA20_BLOCK_SIZE)
    return b"".join(chacha20_block(key, nonce, counter + index) for index in range(blocks))[:size]


def _xor(a: Buffer, b: Buffer) -> bytes:
    size = memoryview(a).nbytes
    return (int.from_bytes(bytes(a), "little") ^ int.from_bytes(bytes(b), "little")).to_bytes(size, "little")


def chacha20_xor(key: Buffer, nonce: Buffer, data: Buffer, counter: int = 0) -> bytes:
    """Data xor keystream from block ``counter`` on; the 32-bit counter must not wrap, or ``ValueError``."""
    checked_key, checked_nonce, view, first = check_chacha20(key, nonce, data, counter)
    return _xor(view, chacha20_keystream(checked_key, checked_nonce, view.nbytes, first))


def check_chacha20(key: Buffer, nonce: Buffer, data: Buffer, counter: int) -> tuple[bytes, bytes, memoryview, int]:
    """The arguments of chacha20_xor, checked."""
    checked_key = arguments.sized("key", key, KEY_SIZE)
    checked_nonce = arguments.sized("nonce", nonce, CHACHA20_NONCE_SIZE)
    first = arguments.integer("counter", counter, 0, 2**32 - 1)
    view = arguments.at_most("data", data, (2**32 - first) * _CHACHA20_BLOCK_SIZE)
    return checked_key, checked_nonce, view, first


def hchacha20(key: Buffer, nonce: Buffer) -> bytes:
    """The 32-byte subkey of XChaCha20 (draft-irtf-cfrg-xchacha-03, 2.2); key: 32 bytes, nonce: 16."""
    words = struct.unpack("<8I", arguments.sized("key", key, KEY_SIZE))
    state = [*_CONSTANTS, *words, *struct.unpack("<4I", arguments.sized("nonce", nonce, HCHACHA20_NONCE_SIZE))]
    x = _permuted(state)
    return struct.pack("<8I", *x[:4], *x[12:])


def extended(key: bytes, nonce: bytes) -> tuple[bytes, bytes]:
    """The ChaCha20 key and 12-byte nonce that stand for an XChaCha20 key and 24-byte nonce."""
    return hchacha20(key, nonce[:HCHACHA20_NONCE_SIZE]), bytes(4) + nonce[HCHACHA20_NONCE_SIZE:]


class ReferencePoly1305(Poly1305):
    __slots__ = ("_accumulator", "_key", "_lock", "_pending", "_r", "_tag")
    _accumulator: int
    _key: bytes
    _lock: threading.Lock
    _pending: bytes
    _r: int
    _tag: bytes | None

    def __new__(cls, one_time_key: Buffer) -> Self:
        return cls._at(State(arguments.sized("one_time_key", one_time_key, KEY_SIZE), 0, b""))

    @classmethod
    def from_state(cls, state: Buffer) -> Self:
        return cls._at(unpack(state))

    @classmethod
    def _at(cls, state: State) -> Self:
        self = object.__new__(cls)
        self._key, self._accumulator, self._pending = state
        self._r = int.from_bytes(state.key[:16], "little") & _CLAMP
        self._lock = threading.Lock()
        self._tag = None
        return self

    def _absorb(self, blocks: bytes) -> None:
        """Whole blocks: accumulator = (accumulator + block + 2^128) * r (RFC 8439, 2.5)."""
        for start in range(0, len(blocks), BLOCK_SIZE):
            block = int.from_bytes(blocks[start : start + BLOCK_SIZE], "little")
            self._accumulator = (self._accumulator + block + (1 << 128)) * self._r % PRIME

    def _settled(self) -> int:
        """The accumulator after every whole block so far."""
        return self._accumulator

    def update(self, data: Buffer) -> None:
        view = arguments.buffer("data", data)
        with self._lock:
            if self._tag is not None:
                raise ValueError(FINISHED)
            whole = self._pending + bytes(view)
            end = len(whole) - len(whole) % BLOCK_SIZE
            self._absorb(whole[:end])
            self._pending = whole[end:]

    def digest(self) -> bytes:
        with self._lock:
            if self._tag is None:
                total = self._settled()
                if self._pending:
                    total = (total + int.from_bytes(self._pending + b"\1", "little")) * self._r % PRIME
                total += int.from_bytes(self._key[16:], "little")
                self._tag = (total & (1 << 128) - 1).to_bytes(TAG_SIZE, "little")
            return self._tag

    def verify(self, tag: Buffer) -> None:
        if not hmac.compare_digest(arguments.sized("tag", tag, TAG_SIZE), self.digest()):
            raise InvalidTag("the tag does not verify")

    def export_state(self) -> bytes:
        with self._lock:
            if self._tag is not None:
                raise ValueError(FINISHED)
            return pack(State(self._key, self._settled(), self._pending))


def poly1305(one_time_key: bytes, message: bytes) -> bytes:
    mac = ReferencePoly1305(one_time_key)
    mac.update(message)
    return mac.digest()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK_SIZE)


def aead_mac_data(aad: bytes, ciphertext: bytes) -> bytes:
    """What the tag of the AEAD is over (RFC 8439, 2.8)."""
    return _padded(aad) + _padded(ciphertext) + struct.pack("<QQ", len(aad), len(ciphertext))


class ReferenceAead(CheckedAead):
    __slots__ = ()

    def _chacha20(self, nonce: bytes) -> tuple[bytes, bytes]:
        return extended(self._key, nonce) if len(nonce) == XCHACHA20_NONCE_SIZE else (self._key, nonce)

    def _encrypt(self, nonce: bytes, plaintext: memoryview, aad: memoryview) -> bytes:
        key, short_nonce = self._chacha20(nonce)
        ciphertext = chacha20_xor(key, short_nonce, plaintext, counter=1)
        one_time_key = chacha20_block(key, short_nonce, 0)[:KEY_SIZE]
        return ciphertext + poly1305(one_time_key, aead_mac_data(bytes(aad), ciphertext))

    def _decrypt(self, nonce: bytes, sealed: memoryview, aad: memoryview) -> bytes:
        key, short_nonce = self._chacha20(nonce)
        ciphertext, tag = bytes(sealed[:-TAG_SIZE]), bytes(sealed[-TAG_SIZE:])
        one_time_key = chacha20_block(key, short_nonce, 0)[:KEY_SIZE]
        if not hmac.compare_digest(tag, poly1305(one_time_key, aead_mac_data(bytes(aad), ciphertext))):
            raise InvalidTag("the tag does not verify")
        return chacha20_xor(key, short_nonce, ciphertext, counter=1)


class ReferenceMacKey(MacKey):
    __slots__ = ("_key",)
    _key: bytes

    def __new__(cls, key: Buffer) -> Self:
        self = object.__new__(cls)
        self._key = arguments.sized("key", key, KEY_SIZE)
        return self

    def start(self, nonce: Buffer) -> Poly1305:
        key, short_nonce = extended(self._key, arguments.sized("nonce", nonce, XCHACHA20_NONCE_SIZE))
        return ReferencePoly1305(chacha20_block(key, short_nonce, 0)[:KEY_SIZE])


class ReferenceBackend:
    name = "reference"

    def kernels(self) -> tuple[str, ...]:
        return ()

    def kernel(self) -> str:
        return self.name

    def use_kernel(self, name: str) -> None:
        raise ValueError(f"backend {self.name} has no kernel {name}")

    def cpu_features(self) -> tuple[str, ...]:
        return ()

    def aead(self, key: Buffer, algorithm: str) -> ReferenceAead:
        return ReferenceAead(key, algorithm)

    def poly1305(self, one_time_key: Buffer) -> Poly1305:
        return ReferencePoly1305(one_time_key)

    def poly1305_from_state(self, state: Buffer) -> Poly1305:
        return ReferencePoly1305.from_state(state)

    def mac_key(self, key: Buffer) -> MacKey:
        return ReferenceMacKey(key)

    def chacha20_xor(self, key: Buffer, nonce: Buffer, data: Buffer, counter: int) -> bytes:
        return chacha20_xor(key, nonce, data, counter)

    def hchacha20(self, key: Buffer, nonce: Buffer) -> bytes:
        return hchacha20(key, nonce)


backend = ReferenceBackend()
