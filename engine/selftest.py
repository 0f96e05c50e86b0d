"""Known answers that a backend or kernel has to give before it is used: well under a millisecond for a native kernel.

Long enough for several passes of the widest kernel. Where the comment names no source, OpenSSL and libsodium gave the
answers; ``tests/engine/test_selftest_answers.py`` has them computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import InvalidTag

if TYPE_CHECKING:
    from engine.protocol import Backend

KEY = bytes(range(0x80, 0xA0))
NONCE = bytes(range(0x40, 0x58))
AAD = bytes(range(20))
MESSAGE = bytes(index * index >> 3 & 0xFF for index in range(4219))

# RFC 8439, 2.8.2, and draft-irtf-cfrg-xchacha-03, A.3.1: one text, key and AAD, two nonces.
SUNSCREEN = (
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
    b"sunscreen would be it."
)
SUNSCREEN_AAD = bytes.fromhex("50515253c0c1c2c3c4c5c6c7")
SUNSCREEN_SEALED = {
    "chacha20-poly1305": (
        bytes.fromhex("070000004041424344454647"),
        bytes.fromhex(
            "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e06"
            "0b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d265"
            "86cec64b61161ae10b594f09e26a7e902ecbd0600691"
        ),
    ),
    "xchacha20-poly1305": (
        NONCE,
        bytes.fromhex(
            "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54"
            "c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff921f9664c97637da9768812f6"
            "15c68b13b52ec0875924c1c7987947deafd8780acf49"
        ),
    ),
}
# draft-irtf-cfrg-xchacha-03, 2.2.1
HCHACHA20 = (
    bytes(range(32)),
    bytes.fromhex("000000090000004a0000000031415927"),
    bytes.fromhex("82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc"),
)
# RFC 8439, A.3, vectors 5 and 10: a full reduction, and a carry between halves.
POLY1305 = (
    (
        b"\2" + bytes(31),
        bytes.fromhex("ffffffffffffffffffffffffffffffff"),
        bytes.fromhex("03000000000000000000000000000000"),
    ),
    (
        b"\1" + bytes(7) + b"\4" + bytes(23),
        bytes.fromhex(
            "e33594d7505e43b900000000000000003394d7505e4379cd01000000000000000000000000000000000000000000000001"
            "000000000000000000000000000000"
        ),
        bytes.fromhex("14000000000000005500000000000000"),
    ),
)
# The tag, on which every byte of the ciphertext bears.
MESSAGE_TAGS = {
    "chacha20-poly1305": "e1f4e4b2b0f36567e5f2b3313294f0b1",
    "xchacha20-poly1305": "976497a164a8bec277ffdeb31e32aee3",
}
# Every bit that clamping leaves is set, and so is every bit of the message.
ONES = (bytes([0xFF] * 32), bytes([0xFF] * 2100))
ONES_TAG = "5e3c23db2b9d3ec64a5179408a3cfd41"
# The MAC of the message; and that of its encryption up to the last block that the counter can reach.
MAC_TAG = "0b63dd8f35dfe3aaef3079f99fe7a31c"
LAST_BLOCKS_TAG = "e885fca75c4143c23ca8fb94e2093849"


class SelfTestError(Exception):
    """A backend or kernel gives a wrong answer; the message says to what."""


def run(backend: Backend) -> None:
    """Raises ``SelfTestError`` at the first wrong answer."""
    _run_poly1305(backend)
    _run_chacha20(backend)
    for algorithm in SUNSCREEN_SEALED:
        _run_aead(backend, algorithm)


def _expect(right: bool, what: str) -> None:
    if not right:
        raise SelfTestError(f"wrong answer: {what}")


def _run_poly1305(backend: Backend) -> None:
    for number, (key, data, tag) in enumerate(POLY1305):
        _expect(_tag(backend, key, data) == tag, f"Poly1305, known answer {number}")
    key, data = ONES
    mac = backend.poly1305(key)
    mac.update(data[:5])
    mac.update(data[5:1300])
    resumed = backend.poly1305_from_state(mac.export_state())
    resumed.update(data[1300:])
    _expect(resumed.digest().hex() == ONES_TAG, "Poly1305 of ones in pieces")
    mac.update(data[1300:])
    _expect(mac.digest().hex() == ONES_TAG, "Poly1305 after an export")


def _run_chacha20(backend: Backend) -> None:
    key, nonce, subkey = HCHACHA20
    _expect(backend.hchacha20(key, nonce) == subkey, "HChaCha20")
    mac = backend.mac_key(KEY).start(NONCE)
    mac.update(MESSAGE)
    _expect(mac.digest().hex() == MAC_TAG, "Poly1305-XChaCha20")
    counter = 2**32 - -(-len(MESSAGE) // 64)
    encrypted = backend.chacha20_xor(KEY, NONCE[:12], MESSAGE, counter)
    _expect(_tag(backend, KEY, encrypted).hex() == LAST_BLOCKS_TAG, "ChaCha20 up to its last block")


def _run_aead(backend: Backend, algorithm: str) -> None:
    nonce, sealed = SUNSCREEN_SEALED[algorithm]
    aead = backend.aead(KEY, algorithm)
    _expect(aead.seal(nonce, SUNSCREEN, SUNSCREEN_AAD) == sealed, f"{algorithm}, seal")
    _expect(aead.open(nonce, sealed, SUNSCREEN_AAD) == SUNSCREEN, f"{algorithm}, open")
    nonce = NONCE[: len(nonce)]
    sealed = aead.seal(nonce, MESSAGE, AAD)
    _expect(sealed[-16:].hex() == MESSAGE_TAGS[algorithm], f"{algorithm}, seal of a long message")
    _expect(aead.open(nonce, sealed, AAD) == MESSAGE, f"{algorithm}, open of a long message")
    forged = bytearray(sealed)
    forged[4000] ^= 1
    try:
        aead.open(nonce, forged, AAD)
    except InvalidTag:
        return
    raise SelfTestError(f"{algorithm} opens a forged message")


def _tag(backend: Backend, key: bytes, data: bytes) -> bytes:
    mac = backend.poly1305(key)
    mac.update(data)
    return mac.digest()
