"""Chunks of a stream and their nonces, for backends in Python; the native extension has its own in C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.backends import arguments
from engine.protocol import CHUNK_SIZE, MAX_CHUNKS

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from engine.protocol import Aead, Buffers


def numbered(
    aead: Aead, base_nonce: Buffer, index: int, name: str, data: Buffers, overhead: int, last: bool
) -> Iterator[tuple[bytes, memoryview]]:
    """Each chunk of the data with its nonce. ``overhead``: bytes of a chunk beyond its plaintext."""
    nonce = int.from_bytes(arguments.sized("base_nonce", base_nonce, aead.nonce_size), "big")
    whole = arguments.joined(name, data)
    unit = CHUNK_SIZE + overhead
    count, rest = divmod(whole.nbytes, unit)
    if not last and rest:
        raise ValueError(f"{name} must be a multiple of {unit} bytes unless it is the last, not {whole.nbytes}")
    if last and rest < overhead:
        raise ValueError(f"{name} must end with a chunk of {overhead} to {unit - 1} bytes, not {rest}")
    count += bool(last)
    first = arguments.integer("index", index, 0, MAX_CHUNKS - count)
    # Not a generator function: what is wrong must raise before the first chunk is made.
    return (
        ((nonce ^ first + number).to_bytes(aead.nonce_size, "big"), whole[number * unit : (number + 1) * unit])
        for number in range(count)
    )
