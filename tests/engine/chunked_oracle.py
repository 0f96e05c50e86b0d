"""C2SP chunked-encryption v1, written from the specification and not from our code; over ``cryptography``.

One AEAD is an argument, so that it can be held against the Cobblestone-256 of ``cryptography``, which is the same
construction over another AEAD.
"""

from __future__ import annotations

from typing import Any

CHUNK = 16_384
TAG = 16
CHACHA20_POLY1305 = "AEAD_CHACHA20_POLY1305"
AES_256_GCM = "AEAD_AES_256_GCM"


class Refused(Exception):
    """The stream does not open."""


def _cipher(aead: str, key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

    return {CHACHA20_POLY1305: ChaCha20Poly1305, AES_256_GCM: AESGCM}[aead](key)


def derived(key: bytes, salt: bytes, context: bytes, aead: str) -> tuple[Any, int, bytes]:
    from cryptography.hazmat.primitives.hashes import SHA512
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    info = b"c2sp.org/chunked-encryption@v1+" + aead.encode("ascii") + b"\x00" + salt + context
    material = HKDFExpand(algorithm=SHA512(), length=32 + 12 + 32, info=info).derive(key)
    return _cipher(aead, material[:32]), int.from_bytes(material[32:44], "big"), material[44:]


def seal(key: bytes, context: bytes, plaintext: bytes, salt: bytes, aead: str = CHACHA20_POLY1305) -> bytes:
    cipher, base, commitment = derived(key, salt, context, aead)
    stream, index = salt + commitment, 0
    while True:
        chunk = plaintext[index * CHUNK : (index + 1) * CHUNK]
        stream += cipher.encrypt((base ^ index).to_bytes(12, "big"), chunk, None)
        if len(chunk) < CHUNK:
            return stream
        index += 1


def opened(key: bytes, context: bytes, stream: bytes, aead: str = CHACHA20_POLY1305) -> bytes:
    from cryptography.exceptions import InvalidTag

    salt, committed, body = stream[:24], stream[24:56], stream[56:]
    cipher, base, commitment = derived(key, salt, context, aead)
    if committed != commitment:
        raise Refused
    plaintext, index = b"", 0
    while True:
        chunk, body = body[: CHUNK + TAG], body[CHUNK + TAG :]
        if len(chunk) < TAG:
            raise Refused
        try:
            plaintext += cipher.decrypt((base ^ index).to_bytes(12, "big"), chunk, None)
        except InvalidTag:
            raise Refused from None
        if len(chunk) < CHUNK + TAG:
            return plaintext
        index += 1
