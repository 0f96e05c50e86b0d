"""OpenSSL through the ``cryptography`` package: for machines without the extension, and as an independent peer."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Self

from cryptography import exceptions
from cryptography.hazmat.primitives import poly1305 as openssl_poly1305
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from engine.backends import arguments, reference
from engine.backends.framing import CheckedAead
from engine.backends.reference import ReferencePoly1305
from engine.backends.state import BLOCK_SIZE, PRIME, State
from engine.errors import InvalidTag
from engine.protocol import DEFAULT_ALGORITHM, HCHACHA20_NONCE_SIZE, KEY_SIZE, XCHACHA20_NONCE_SIZE, MacKey, Poly1305

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CONSTANTS = b"expand 32-byte k"
_WORD = 0xFFFFFFFF
#: Bytes from which two tags by OpenSSL and their set-up cost less than Python's own arithmetic (measured: 256).
_WORTH_TWO_TAGS = 256


def _keystream_xor(key: bytes, nonce: bytes, data: bytes | memoryview) -> bytes:
    """ChaCha20 where ``nonce`` is the last 16 bytes of its input state: counter and then nonce."""
    return Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor().update(data)


def chacha20_xor(key: Buffer, nonce: Buffer, data: Buffer, counter: int = 0) -> bytes:
    """Data xor keystream from block ``counter`` on; the 32-bit counter must not wrap, or ``ValueError``."""
    checked_key, checked_nonce, view, first = reference.check_chacha20(key, nonce, data, counter)
    return _keystream_xor(checked_key, first.to_bytes(4, "little") + checked_nonce, view)


def hchacha20(key: Buffer, nonce: Buffer) -> bytes:
    """The 32-byte subkey of XChaCha20 (draft-irtf-cfrg-xchacha-03, 2.2); key: 32 bytes, nonce: 16.

    OpenSSL has no HChaCha20, but it is a ChaCha20 block before the input is added, in rows 0 and 3, where the input
    is public: so take it off again.
    """
    tail = arguments.sized("nonce", nonce, HCHACHA20_NONCE_SIZE)
    block = _keystream_xor(arguments.sized("key", key, KEY_SIZE), tail, bytes(64))
    added = struct.unpack("<8I", _CONSTANTS + tail)
    return struct.pack("<8I", *(a - b & _WORD for a, b in zip(_rows_0_and_3(block), added, strict=True)))


def _rows_0_and_3(block: bytes) -> tuple[int, ...]:
    return struct.unpack("<8I", block[:16] + block[48:])


def _extended(key: bytes, nonce: bytes) -> tuple[bytes, bytes]:
    """The ChaCha20 key and 12-byte nonce that stand for an XChaCha20 key and 24-byte nonce."""
    return hchacha20(key, nonce[:HCHACHA20_NONCE_SIZE]), bytes(4) + nonce[HCHACHA20_NONCE_SIZE:]


class OpensslAead(CheckedAead):
    __slots__ = ("_cipher",)
    _cipher: ChaCha20Poly1305

    def __new__(cls, key: Buffer, algorithm: str = DEFAULT_ALGORITHM) -> Self:
        self = super().__new__(cls, key, algorithm)
        self._cipher = ChaCha20Poly1305(self._key)
        return self

    def _under(self, nonce: bytes) -> tuple[ChaCha20Poly1305, bytes]:
        if len(nonce) != XCHACHA20_NONCE_SIZE:
            return self._cipher, nonce
        key, short_nonce = _extended(self._key, nonce)
        return ChaCha20Poly1305(key), short_nonce

    def _encrypt(self, nonce: bytes, plaintext: memoryview, aad: memoryview) -> bytes:
        cipher, short_nonce = self._under(nonce)
        try:
            return cipher.encrypt(short_nonce, plaintext, aad)
        except OverflowError as error:
            raise ValueError(f"plaintext and aad are too long for backend openssl: {error}") from None

    def _decrypt(self, nonce: bytes, sealed: memoryview, aad: memoryview) -> bytes:
        cipher, short_nonce = self._under(nonce)
        try:
            return cipher.decrypt(short_nonce, sealed, aad)
        except exceptions.InvalidTag:
            raise InvalidTag("the tag does not verify") from None
        except OverflowError as error:
            raise ValueError(f"sealed and aad are too long for backend openssl: {error}") from None


class OpensslPoly1305(ReferencePoly1305):
    """OpenSSL multiplies, but its state can't be had: so each long update is a message of its own under r and s = 0.

    If its value is v and it has n blocks, the accumulator becomes accumulator * r^n + v. The tag tells v but for its
    upper two bits; those follow from the tag of the same message with one known block more, which is
    (v + 2^128) * r, except for a few r such as 1, where Python has to do.
    """

    __slots__ = ("_without_s",)
    _without_s: bytes | None

    @classmethod
    def _at(cls, state: State) -> Self:
        self = super()._at(state)
        self._without_s = None if _is_ambiguous(self._r) else self._r.to_bytes(KEY_SIZE, "little")
        return self

    def _absorb(self, blocks: bytes) -> None:
        if self._without_s is None or len(blocks) < _WORTH_TWO_TAGS:
            super()._absorb(blocks)
            return
        low = int.from_bytes(openssl_poly1305.Poly1305.generate_tag(self._without_s, blocks), "little")
        longer = openssl_poly1305.Poly1305(self._without_s)
        longer.update(blocks)
        longer.update(bytes(BLOCK_SIZE))
        after = int.from_bytes(longer.finalize(), "little")
        values = (low + (upper << 128) for upper in range(4))
        value = next(v for v in values if (v + (1 << 128)) * self._r % PRIME % (1 << 128) == after)
        power = pow(self._r, len(blocks) // BLOCK_SIZE, PRIME)
        self._accumulator = (self._accumulator * power + value) % PRIME


def _is_ambiguous(r: int) -> bool:
    """Whether two values that differ in their upper two bits only can agree in the lower 128 bits after another block.

    Their difference there is d = (k * 2^128 * r mod p), or d - p, for a k of 1 to 3.
    """
    return any((k << 128) * r % PRIME % (1 << 128) in (0, PRIME % (1 << 128)) for k in (1, 2, 3))


class OpensslMacKey(MacKey):
    __slots__ = ("_key",)
    _key: bytes

    def __new__(cls, key: Buffer) -> Self:
        self = object.__new__(cls)
        self._key = arguments.sized("key", key, KEY_SIZE)
        return self

    def start(self, nonce: Buffer) -> Poly1305:
        key, short_nonce = _extended(self._key, arguments.sized("nonce", nonce, XCHACHA20_NONCE_SIZE))
        return OpensslPoly1305(_keystream_xor(key, bytes(4) + short_nonce, bytes(KEY_SIZE)))


class OpensslBackend:
    name = "openssl"

    def kernels(self) -> tuple[str, ...]:
        return ()

    def kernel(self) -> str:
        return self.name

    def use_kernel(self, name: str) -> None:
        raise ValueError(f"backend {self.name} has no kernel {name}")

    def cpu_features(self) -> tuple[str, ...]:
        return ()

    def aead(self, key: Buffer, algorithm: str) -> OpensslAead:
        return OpensslAead(key, algorithm)

    def poly1305(self, one_time_key: Buffer) -> Poly1305:
        return OpensslPoly1305(one_time_key)

    def poly1305_from_state(self, state: Buffer) -> Poly1305:
        return OpensslPoly1305.from_state(state)

    def mac_key(self, key: Buffer) -> MacKey:
        return OpensslMacKey(key)

    def chacha20_xor(self, key: Buffer, nonce: Buffer, data: Buffer, counter: int) -> bytes:
        return chacha20_xor(key, nonce, data, counter)

    def hchacha20(self, key: Buffer, nonce: Buffer) -> bytes:
        return hchacha20(key, nonce)


backend = OpensslBackend()
