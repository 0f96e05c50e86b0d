"""Many chunks of a stream at once, for backends in Python; the native extension has its own in C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.backends import arguments
from engine.protocol import CHUNK_SIZE, MAX_CHUNKS, TAG_SIZE

if TYPE_CHECKING:
    from engine.protocol import Aead, Buffers


def joined(name: str, value: Buffers) -> memoryview:
    """A buffer as it is, or the concatenation of a list of them."""
    if isinstance(value, list):
        return memoryview(b"".join(arguments.buffer(f"{name} piece", piece) for piece in value))
    return arguments.buffer(name, value)


def numbered(
    aead: Aead, base_nonce: bytes, index: int, name: str, data: memoryview, overhead: int, last: bool
) -> Iterator[tuple[bytes, memoryview]]:
    """Each chunk with its nonce; all is checked before the first comes out."""
    nonce = int.from_bytes(arguments.sized("base_nonce", base_nonce, aead.nonce_size), "big")
    unit = CHUNK_SIZE + overhead
    whole, rest = divmod(data.nbytes, unit)
    if not last and rest:
        raise ValueError(f"{name} must be a multiple of {unit} bytes unless it is the last, not {data.nbytes}")
    if last and rest < overhead:
        raise ValueError(f"{name} must end with a chunk of {overhead} to {unit - 1} bytes, not {rest}")
    count = whole + last
    first = arguments.integer("index", index, 0, MAX_CHUNKS - count)
    return (
        ((nonce ^ first + number).to_bytes(aead.nonce_size, "big"), data[number * unit : (number + 1) * unit])
        for number in range(count)
    )


def seal(aead: Aead, base_nonce: bytes, index: int, plaintext: Buffers, last: bool) -> bytes:
    chunks = numbered(aead, base_nonce, index, "plaintext", joined("plaintext", plaintext), 0, last)
    return b"".join(aead.seal(nonce, chunk) for nonce, chunk in chunks)


def opened(aead: Aead, base_nonce: bytes, index: int, sealed: Buffers, last: bool) -> bytes:
    chunks = numbered(aead, base_nonce, index, "sealed", joined("sealed", sealed), TAG_SIZE, last)
    return b"".join(aead.open(nonce, chunk) for nonce, chunk in chunks)
