"""Everything of an Aead that follows from seal and open, for backends in Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from engine.backends import arguments
from engine.backends.chunks import numbered
from engine.protocol import DEFAULT_ALGORITHM, KEY_SIZE, MAX_PLAINTEXT_SIZE, NONCE_SIZES, TAG_SIZE, Aead

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from engine.protocol import Buffers, Plaintext


class CheckedAead(Aead):
    """Checks arguments, handles buffers and frames, and leaves ``_encrypt`` and ``_decrypt`` to subclasses."""

    __slots__ = ("_algorithm", "_key")
    _algorithm: str
    _key: bytes

    # In __new__, not __init__: Aead(key) would run the latter a second time.
    def __new__(cls, key: Buffer, algorithm: str = DEFAULT_ALGORITHM) -> Self:
        self = object.__new__(cls)
        self._key = arguments.sized("key", key, KEY_SIZE)
        self._algorithm = arguments.algorithm(algorithm)
        return self

    def _encrypt(self, nonce: bytes, plaintext: memoryview, aad: memoryview) -> bytes:
        raise NotImplementedError

    def _decrypt(self, nonce: bytes, sealed: memoryview, aad: memoryview) -> bytes:
        raise NotImplementedError

    @property
    def algorithm(self) -> str:
        return self._algorithm

    @property
    def nonce_size(self) -> int:
        return NONCE_SIZES[self._algorithm]

    def seal(self, nonce: Buffer, plaintext: Buffer, aad: Buffer = b"") -> bytes:
        return self._encrypt(
            arguments.sized("nonce", nonce, self.nonce_size),
            arguments.at_most("plaintext", plaintext, MAX_PLAINTEXT_SIZE),
            arguments.buffer("aad", aad),
        )

    def open(self, nonce: Buffer, sealed: Buffer, aad: Buffer = b"") -> bytes:
        return self._decrypt(
            arguments.sized("nonce", nonce, self.nonce_size), _sealed(sealed), arguments.buffer("aad", aad)
        )

    def seal_into(self, nonce: Buffer, plaintext: Buffer, out: Buffer, aad: Buffer = b"") -> int:
        source = arguments.at_most("plaintext", plaintext, MAX_PLAINTEXT_SIZE)
        target = arguments.output(out, source.nbytes + TAG_SIZE, source)
        target[:] = self.seal(nonce, source, aad)
        return target.nbytes

    def open_into(self, nonce: Buffer, sealed: Buffer, out: Buffer, aad: Buffer = b"") -> int:
        source = _sealed(sealed)
        target = arguments.output(out, source.nbytes - TAG_SIZE, source)
        checked_nonce = arguments.sized("nonce", nonce, self.nonce_size)
        checked_aad = arguments.buffer("aad", aad)
        opened = bytes(target.nbytes)
        try:
            opened = self._decrypt(checked_nonce, source, checked_aad)
        finally:
            target[:] = opened
        return target.nbytes

    def seal_framed(self, prefix: Buffer, plaintext: Plaintext, aad: Buffer = b"") -> bytes:
        head = bytes(arguments.buffer("prefix", prefix))
        nonce = os.urandom(self.nonce_size)
        whole = arguments.joined("plaintext", plaintext)
        return head + nonce + self.seal(nonce, whole, head + bytes(arguments.buffer("aad", aad)))

    def seal_framed_many(self, prefix: Buffer, items: Sequence[tuple[Plaintext, Buffer]]) -> list[bytes]:
        pairs = list(items)
        for item in pairs:
            if not isinstance(item, tuple) or len(item) != 2:
                raise TypeError("each of items must be a tuple (plaintext, aad)")
        return [self.seal_framed(prefix, plaintext, aad) for plaintext, aad in pairs]

    def open_framed(self, message: Buffer, prefix_size: int, aad: Buffer = b"") -> bytes:
        whole = arguments.buffer("message", message)
        size = arguments.integer("prefix_size", prefix_size, 0, whole.nbytes, "the message's {} bytes")
        arguments.at_least("message", whole, size + self.nonce_size + TAG_SIZE)
        body = size + self.nonce_size
        return self.open(whole[size:body], whole[body:], bytes(whole[:size]) + bytes(arguments.buffer("aad", aad)))

    def seal_chunks(self, base_nonce: Buffer, index: int, plaintext: Buffers, last: bool = False) -> bytes:
        chunks = numbered(self, base_nonce, index, "plaintext", plaintext, 0, last)
        return b"".join(self.seal(nonce, chunk) for nonce, chunk in chunks)

    def open_chunks(self, base_nonce: Buffer, index: int, sealed: Buffers, last: bool = False) -> bytes:
        chunks = numbered(self, base_nonce, index, "sealed", sealed, TAG_SIZE, last)
        return b"".join(self.open(nonce, chunk) for nonce, chunk in chunks)

    def verify_chunks(self, base_nonce: Buffer, index: int, sealed: Buffers, last: bool = False) -> None:
        for nonce, chunk in numbered(self, base_nonce, index, "sealed", sealed, TAG_SIZE, last):
            self.open(nonce, chunk)


def _sealed(sealed: Buffer) -> memoryview:
    arguments.at_least("sealed", sealed, TAG_SIZE)
    return arguments.at_most("sealed", sealed, MAX_PLAINTEXT_SIZE + TAG_SIZE)
