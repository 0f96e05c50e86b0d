"""What `sealane bench engine` measures: each case makes one call of ours and the same call of the peer, over the same
buffers, objects made once. Peers: pyca/cryptography (OpenSSL) and, for XChaCha20, PyNaCl (libsodium)."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.poly1305 import Poly1305
from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
)

import engine
from service.bench.measure import Contender

CHACHA20_SIZES = (16, 64, 256, 1024, 8192, 16384)
POLY1305_SIZES = (64, 1024, 2 << 20)
AEAD_SIZES = (64, 1350, 8192, 16384, 1 << 20)

# Fixed values: what is measured does not depend on them, and a benchmark's key protects nothing.
_KEY = bytes(range(32))
_NONCES = {"chacha20-poly1305": bytes(12), "xchacha20-poly1305": bytes(24)}
_AAD = bytes(8)  # as long as the header of a sealed message, which the service always authenticates

CRYPTOGRAPHY = "cryptography"
PYNACL = "PyNaCl"


@dataclass(frozen=True)
class Case:
    """`ours` and `peer` make fresh contenders; `ours` on the kernel that is in use when it is called."""

    operation: str
    size: int
    peer_name: str
    ours: Callable[[], Contender]
    peer: Callable[[], Contender]


def _buffer(size: int, offset: int) -> memoryview:
    """`size` zero bytes that begin `offset` bytes after a page border."""
    return memoryview(mmap.mmap(-1, size + offset))[offset:]


def _chacha20(size: int) -> Case:
    data = bytes(size)

    def ours() -> Contender:
        return Contender(engine.chacha20_xor, (_KEY, bytes(12), data))

    def peer() -> Contender:
        # One encryptor that goes on, as `openssl speed` does: the peer is spared its set-up, ours is not.
        return Contender(Cipher(ChaCha20(_KEY, bytes(16)), None).encryptor().update, (data,))

    return Case("chacha20", size, CRYPTOGRAPHY, ours, peer)


def _chacha20_set_up(size: int) -> Case:
    """Key and nonce set up in every call, by both."""
    data = bytes(size)

    def peer_once(key: bytes, nonce: bytes, message: bytes) -> bytes:
        return Cipher(ChaCha20(key, nonce), None).encryptor().update(message)

    return Case(
        "chacha20, set up in each call",
        size,
        CRYPTOGRAPHY,
        lambda: Contender(engine.chacha20_xor, (_KEY, bytes(12), data)),
        lambda: Contender(peer_once, (_KEY, bytes(16), data)),
    )


def _poly1305_at_once(size: int, offset: int) -> Case:
    data = _buffer(size, offset)

    def ours_once(key: bytes, message: memoryview) -> bytes:
        mac = engine.Poly1305(key)
        mac.update(message)
        return mac.digest()

    def peer_once(key: bytes, message: memoryview) -> bytes:
        mac = Poly1305(key)
        mac.update(message)
        return mac.finalize()

    return Case(
        f"poly1305 in one piece, {_alignment(offset)}",
        size,
        CRYPTOGRAPHY,
        lambda: Contender(ours_once, (_KEY, data)),
        lambda: Contender(peer_once, (_KEY, data)),
    )


def _poly1305_writes(size: int, offset: int) -> Case:
    """A stream of writes. The unaligned one also begins with `offset` bytes, so each 16-byte block straddles writes."""
    data = _buffer(size, offset)

    def ours() -> Contender:
        mac = engine.Poly1305(_KEY)
        mac.update(bytes(offset))
        return Contender(mac.update, (data,))

    def peer() -> Contender:
        mac = Poly1305(_KEY)
        mac.update(bytes(offset))
        return Contender(mac.update, (data,))

    return Case(f"poly1305 stream of writes, {_alignment(offset)}", size, CRYPTOGRAPHY, ours, peer)


def _alignment(offset: int) -> str:
    return "unaligned" if offset else "aligned"


def _seal(algorithm: str, size: int) -> Case:
    data, nonce = bytes(size), _NONCES[algorithm]

    def ours() -> Contender:
        return Contender(engine.Aead(_KEY, algorithm).seal, (nonce, data, _AAD))

    if algorithm == "xchacha20-poly1305":
        encrypt = crypto_aead_xchacha20poly1305_ietf_encrypt
        return Case(f"seal {algorithm}", size, PYNACL, ours, lambda: Contender(encrypt, (data, _AAD, nonce, _KEY)))
    return Case(
        f"seal {algorithm}",
        size,
        CRYPTOGRAPHY,
        ours,
        lambda: Contender(ChaCha20Poly1305(_KEY).encrypt, (nonce, data, _AAD)),
    )


def _open(algorithm: str, size: int) -> Case:
    nonce = _NONCES[algorithm]
    sealed = engine.Aead(_KEY, algorithm).seal(nonce, bytes(size), _AAD)

    def ours() -> Contender:
        return Contender(engine.Aead(_KEY, algorithm).open, (nonce, sealed, _AAD))

    if algorithm == "xchacha20-poly1305":
        decrypt = crypto_aead_xchacha20poly1305_ietf_decrypt
        return Case(f"open {algorithm}", size, PYNACL, ours, lambda: Contender(decrypt, (sealed, _AAD, nonce, _KEY)))
    return Case(
        f"open {algorithm}",
        size,
        CRYPTOGRAPHY,
        ours,
        lambda: Contender(ChaCha20Poly1305(_KEY).decrypt, (nonce, sealed, _AAD)),
    )


def all_cases() -> Iterator[Case]:
    """Every case of the engine benchmark, in the order in which it is printed."""
    for make_chacha20 in (_chacha20, _chacha20_set_up):
        for size in CHACHA20_SIZES:
            yield make_chacha20(size)
    for make in (_poly1305_at_once, _poly1305_writes):
        for offset in (0, 1):
            for size in POLY1305_SIZES:
                yield make(size, offset)
    algorithms: tuple[str, ...] = ("chacha20-poly1305", "xchacha20-poly1305")
    for algorithm in algorithms:
        for make_aead in (_seal, _open):
            for size in AEAD_SIZES:
                yield make_aead(algorithm, size)
