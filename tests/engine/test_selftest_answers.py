"""The self-test's own known answers, computed again by libsodium and OpenSSL."""

from __future__ import annotations

import pytest

from engine import selftest
from engine.backends.reference import ReferenceMacKey

bindings = pytest.importorskip("nacl.bindings")
pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import poly1305  # noqa: E402
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms  # noqa: E402


def test_aead() -> None:
    for name, answer in selftest.MESSAGE_TAGS.items():
        encrypt = getattr(bindings, f"crypto_aead_{name.replace('20-poly1305', '20poly1305')}_ietf_encrypt")
        nonce, sealed = selftest.SUNSCREEN_SEALED[name]
        assert encrypt(selftest.SUNSCREEN, selftest.SUNSCREEN_AAD, nonce, selftest.KEY) == sealed
        long = encrypt(selftest.MESSAGE, selftest.AAD, selftest.NONCE[: len(nonce)], selftest.KEY)
        assert long[-16:].hex() == answer


def test_poly1305() -> None:
    assert poly1305.Poly1305.generate_tag(*selftest.ONES).hex() == selftest.ONES_TAG
    for key, data, tag in selftest.POLY1305:
        assert poly1305.Poly1305.generate_tag(key, data) == tag


def test_last_blocks() -> None:
    counter = 2**32 - -(-len(selftest.MESSAGE) // 64)
    state = counter.to_bytes(4, "little") + selftest.NONCE[:12]
    encrypted = Cipher(algorithms.ChaCha20(selftest.KEY, state), mode=None).encryptor().update(selftest.MESSAGE)
    assert poly1305.Poly1305.generate_tag(selftest.KEY, encrypted).hex() == selftest.LAST_BLOCKS_TAG


def test_mac() -> None:
    """XChaCha20-Poly1305 has the same one-time key, so its tag over AAD alone is the MAC of the AAD and the lengths."""
    size = len(selftest.MESSAGE) // 16 * 16
    text = selftest.MESSAGE[:size]
    theirs = bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(b"", text, selftest.NONCE, selftest.KEY)
    mac = ReferenceMacKey(selftest.KEY).start(selftest.NONCE)
    mac.update(text + size.to_bytes(8, "little") + bytes(8))
    assert mac.digest() == theirs
    whole = ReferenceMacKey(selftest.KEY).start(selftest.NONCE)
    whole.update(selftest.MESSAGE)
    assert whole.digest().hex() == selftest.MAC_TAG
