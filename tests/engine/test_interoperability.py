"""libsodium (PyNaCl) and OpenSSL (cryptography) open what we seal and verify our MACs, and the reverse."""

from __future__ import annotations

import oracle
import pytest

import engine

bindings = pytest.importorskip("nacl.bindings")
pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import poly1305  # noqa: E402
from cryptography.hazmat.primitives.ciphers import aead as openssl  # noqa: E402

KEY = oracle.KEY
SIZES = (0, 1, 15, 64, 513, 1350, 5000, oracle.LONG)
pytestmark = pytest.mark.usefixtures("implementation")


def sizes() -> tuple[int, ...]:
    return SIZES[:-1] if engine.info().backend == "reference" else SIZES


@pytest.mark.parametrize("aad", [b"", oracle.AAD[:300]], ids=["no aad", "aad"])
def test_libsodium(algorithm: str, aad: bytes) -> None:
    name = algorithm.replace("20-poly1305", "20poly1305")
    encrypt = getattr(bindings, f"crypto_aead_{name}_ietf_encrypt")
    decrypt = getattr(bindings, f"crypto_aead_{name}_ietf_decrypt")
    ours = engine.Aead(KEY, algorithm)
    prefix = b"\1\2\0\0\0\0\0\1"
    for size in sizes():
        text, nonce = oracle.MESSAGE[:size], oracle.data(f"interoperability {size}", ours.nonce_size)
        sealed = ours.seal(nonce, text, aad)
        assert decrypt(sealed, aad, nonce, KEY) == text
        assert encrypt(text, aad, nonce, KEY) == sealed
        assert ours.open(nonce, encrypt(text, aad, nonce, KEY), aad) == text
        framed = ours.seal_framed(prefix, text, aad)
        head = len(prefix) + ours.nonce_size
        assert decrypt(framed[head:], prefix + aad, framed[len(prefix) : head], KEY) == text
        assert ours.open_framed(prefix + nonce + encrypt(text, prefix + aad, nonce, KEY), len(prefix), aad) == text


def test_openssl() -> None:
    ours, theirs = engine.Aead(KEY, "chacha20-poly1305"), openssl.ChaCha20Poly1305(KEY)
    for size in sizes():
        text, aad = oracle.MESSAGE[:size], oracle.AAD[:77]
        framed = ours.seal_framed(b"prefix", text, aad)
        assert theirs.decrypt(framed[6:18], framed[18:], b"prefix" + aad) == text
        nonce = oracle.data(f"openssl {size}", 12)
        assert ours.open(nonce, theirs.encrypt(nonce, text, aad), aad) == text
        assert ours.seal(nonce, text, aad) == theirs.encrypt(nonce, text, aad)


def test_poly1305_with_openssl() -> None:
    for size in sizes():
        key, text = oracle.data(f"one-time key {size}", 32), oracle.MESSAGE[:size]
        ours = engine.Poly1305(key)
        ours.update(text)
        poly1305.Poly1305.verify_tag(key, text, ours.digest())
        again = engine.Poly1305(key)
        again.update(text)
        again.verify(poly1305.Poly1305.generate_tag(key, text))


def test_mac_key_with_libsodium_and_openssl() -> None:
    """An empty message under XChaCha20-Poly1305 with AAD is a MAC under the same one-time key, with its lengths."""
    nonce = oracle.data("mac nonce", 24)
    for size in (0, 16, 640, 1360):
        text = oracle.MESSAGE[:size]
        tag = bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(b"", text, nonce, KEY)
        mac = engine.MacKey(KEY).start(nonce)
        mac.update(text + size.to_bytes(8, "little") + bytes(8))
        mac.verify(tag)
