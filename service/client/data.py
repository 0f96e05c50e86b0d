"""What callers hand in as data of any length, in pieces as httpx sends them."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import IO, TypeAlias, cast

BytesLike: TypeAlias = bytes | bytearray | memoryview
#: Data of any length: at once, in pieces, or from a file or pipe that is open for reading bytes, from where it stands.
Data: TypeAlias = BytesLike | Iterable[bytes] | IO[bytes]
AsyncData: TypeAlias = Data | AsyncIterable[bytes]

PIECE = 256 << 10  # bytes in one go


def size_of(data: AsyncData) -> int | None:
    """How many bytes there are to come, where that is certain: of a pipe it is not."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return memoryview(data).nbytes
    if not hasattr(data, "fileno"):
        return None
    file = cast(IO[bytes], data)
    try:
        status = os.fstat(file.fileno())
        return max(0, status.st_size - file.tell()) if stat.S_ISREG(status.st_mode) else None
    except (OSError, ValueError):  # io.UnsupportedOperation is both
        return None


def pieces(data: Data, skip: int = 0) -> Iterator[bytes]:
    """The data behind its first `skip` bytes."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        view = memoryview(data).cast("B")
        for start in range(skip, view.nbytes, PIECE):
            yield bytes(view[start : start + PIECE])
    elif hasattr(data, "read"):
        file = cast(IO[bytes], data)
        if skip and file.seekable():
            file.seek(skip, os.SEEK_CUR)
            skip = 0
        # What a slow pipe has is sent at once; and a signal is not kept waiting until a piece is full.
        read = getattr(file, "read1", file.read)
        yield from _behind(iter(lambda: read(PIECE), b""), skip)
    else:
        yield from _behind(data, skip)


def _behind(parts: Iterable[bytes], skip: int) -> Iterator[bytes]:
    for part in parts:
        if len(part) > skip:
            yield part[skip:]
        skip = max(0, skip - len(part))


async def async_pieces(data: AsyncData, skip: int = 0) -> AsyncIterator[bytes]:
    """As `pieces`; files are read in threads."""
    if isinstance(data, AsyncIterable):
        async for part in data:
            if len(part) > skip:
                yield part[skip:]
            skip = max(0, skip - len(part))
    elif hasattr(data, "read"):
        parts = pieces(data, skip)
        while part := await asyncio.to_thread(next, parts, b""):
            yield part
    else:
        for part in pieces(data, skip):
            yield part
