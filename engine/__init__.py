"""The engine: ChaCha20, Poly1305 and their AEADs. Knows nothing of HTTP, names of keys or storage.

It picks the best kernel of the best backend when it is imported; the environment variable SEALANE_ENGINE, or ``use``,
names another. Any object with the buffer protocol goes in; ``bytes`` come out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine.chunked import ChunkedOpener, ChunkedSealer, ChunkedVerifier
from engine.errors import InvalidTag
from engine.protocol import Aead, MacKey, Poly1305, selection
from engine.registry import Info
from engine.registry import registry as _registry

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "Aead",
    "ChunkedOpener",
    "ChunkedSealer",
    "ChunkedVerifier",
    "Info",
    "InvalidTag",
    "MacKey",
    "Poly1305",
    "chacha20_xor",
    "check",
    "hchacha20",
    "info",
    "use",
]

use = _registry.use
info = _registry.info
check = _registry.check


def chacha20_xor(key: Buffer, nonce: Buffer, data: Buffer, counter: int = 0) -> bytes:
    """ChaCha20 (RFC 8439, 2.4): data xor keystream from 64-byte block ``counter`` on. Not authenticated.

    key: 32 bytes; nonce: 12 bytes. The 32-bit counter never wraps: data that would need more than block 2^32 - 1
    raises ``ValueError``.
    """
    return selection.backend.chacha20_xor(key, nonce, data, counter)


def hchacha20(key: Buffer, nonce: Buffer) -> bytes:
    """HChaCha20 (draft-irtf-cfrg-xchacha-03, 2.2): a 32-byte subkey from a 32-byte key and a 16-byte nonce."""
    return selection.backend.hchacha20(key, nonce)


if _wanted := os.environ.get("SEALANE_ENGINE"):
    use(_wanted)
else:
    _registry.use_best()
