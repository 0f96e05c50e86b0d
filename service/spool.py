"""Ciphertext that waits on disk: for the rest of its stream to verify, or for a client that does not read yet.

Files have no name from the start where the file system allows that (O_TMPFILE), else none once they are open; so they
vanish with the process, however it ends. Each worker has a folder of its own, in which it says how much it holds and
holds a lock on that for as long as it lives; the others add these up, and remove folders of the dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import secrets
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from service.errors import SpoolUnavailable, TooLarge

_log = logging.getLogger("sealane.spool")
T = TypeVar("T")

# Written and read in pieces of about this size: a trip to a thread costs as much as some dozen KiB.
BATCH: Final = 512 * 2**10
# What a stream keeps in memory before it takes to the disk.
IN_MEMORY: Final = 512 * 2**10
# Streams reserve room in blocks, so that workers seldom have to ask each other.
_LARGEST_BLOCK: Final = 16 * 2**20
_THREADS: Final = 4
_PREFIX: Final = "worker-"
_RESERVED: Final = "reserved"
_MANY_PIECES: Final = 64
_UNNAMED_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)


class Spool:
    """One worker's part of the spool in `folder`. `stream_bytes` bounds one stream, `total_bytes` all workers'."""

    def __init__(self, folder: Path, stream_bytes: int, total_bytes: int) -> None:
        self.stream_bytes = min(stream_bytes, total_bytes)
        self._folder = folder
        self._total = total_bytes
        self._block = min(_LARGEST_BLOCK, max(BATCH, total_bytes // 64))
        self._lock = threading.Lock()
        self._mine: Path | None = None
        self._usage = -1
        self._executor = ThreadPoolExecutor(_THREADS, "sealane-spool")
        # Bytes that this worker's streams hold reserved.
        self.reserved = 0

    def open(self) -> None:
        """Make this worker's folder and remove those of dead ones. Blocks. A failure is logged, and met again at use:
        whoever seals no streams needs no spool."""
        try:
            with self._lock:
                self._prepare()
        except OSError as error:
            _log.warning(
                "streams are limited: the spool folder can't be used (%s); see SEALANE_SPOOL_FOLDER", _name(error)
            )

    def close(self) -> None:
        """Let go of everything. Blocks."""
        self._executor.shutdown(wait=True)
        with self._lock:
            if self._mine is not None:
                os.close(self._usage)
                shutil.rmtree(self._mine, ignore_errors=True)
                self._mine = None

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """`work(*arguments)` in a thread of the spool's own: a slow disk must not keep anything else waiting."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    def later(self, work: Callable[[], None]) -> None:
        """Do `work` in a thread, or here and now if there are no more threads."""
        try:
            self._executor.submit(work)
        except RuntimeError:
            work()

    def make_file(self) -> int:
        """The descriptor of a new file that has no name. Blocks. OSError."""
        with self._lock:
            if self._mine is None or not self._mine.exists():
                self._prepare()
            assert self._mine is not None
            folder = self._mine
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in _UNNAMED_UNSUPPORTED:
                raise
        descriptor, name = tempfile.mkstemp(dir=folder)
        os.unlink(name)
        return descriptor

    def reserve(self, count: int) -> int:
        """Set aside at least `count` bytes; returns how many. Blocks. SpoolUnavailable if they are not to be had."""
        count = -(-count // self._block) * self._block
        with self._lock:
            if self._mine is None:
                self._prepare()
            with self._all_locked():
                if sum(self._others()) + self.reserved + count > self._total:
                    raise SpoolUnavailable("all that the spool may hold is taken by streams on their way")
                self._report(self.reserved + count)
        return count

    def release(self, count: int) -> None:
        with self._lock:
            if self._mine is None:
                self.reserved -= count
            else:
                self._report(self.reserved - count)

    def _report(self, reserved: int) -> None:
        self.reserved = reserved
        os.pwrite(self._usage, reserved.to_bytes(8), 0)

    def _prepare(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._all_locked():
            sum(self._others())
            mine = self._folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
            mine.mkdir(mode=0o700)
            usage = os.open(mine / _RESERVED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(usage, fcntl.LOCK_EX)
            if self._usage >= 0:
                os.close(self._usage)
            self._usage, self._mine = usage, mine
            self._report(self.reserved)

    @contextlib.contextmanager
    def _all_locked(self) -> Iterator[None]:
        """One worker at a time adds up and tidies."""
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _others(self) -> Iterator[int]:
        """What each other living worker holds. Folders of dead ones are removed on the way."""
        for folder in self._folder.glob(_PREFIX + "*"):
            if folder == self._mine:
                continue
            try:
                descriptor = os.open(folder / _RESERVED, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                shutil.rmtree(folder, ignore_errors=True)
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield int.from_bytes(os.pread(descriptor, 8, 0))
            else:
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


class _File:
    """One stream's room on disk, a ring of `capacity` bytes. Closed once the last thread is done with it."""

    def __init__(self, spool: Spool) -> None:
        self.capacity = spool.stream_bytes
        self._spool = spool
        self._lock = threading.Lock()
        self._descriptor = -1
        self._users = 0
        self._closed = False
        self._reserved = 0

    async def write(self, at: int, pieces: Sequence[bytes]) -> None:
        """Write at position `at` of the stream. One write at a time. SpoolUnavailable if there is no room, or the disk
        is full or fails."""
        await self._spool.run(self._write, at, pieces)

    async def read(self, at: int, most: int) -> bytes:
        """Up to `most` bytes that were written at `at`: fewer at the end of the ring. SpoolUnavailable if the disk
        fails."""
        at %= self.capacity
        return await self._spool.run(self._read, at, min(most, self.capacity - at))

    def close(self) -> None:
        self._spool.later(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            idle = not self._users
        if idle:
            self._dispose()

    def _dispose(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._reserved:
            self._spool.release(self._reserved)
            self._reserved = 0

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise SpoolUnavailable("the stream was broken off")
            self._users += 1
        try:
            yield
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            _log.warning("the spool's disk %s (%s)", "is full" if full else "fails", _name(error))
            raise SpoolUnavailable("the spool's disk is full" if full else "the spool's disk fails") from None
        finally:
            with self._lock:
                self._users -= 1
                last = self._closed and not self._users
            if last:
                self._dispose()

    def _write(self, at: int, pieces: Sequence[bytes]) -> None:
        size = sum(map(len, pieces))
        with self._used():
            highest = min(at + size, self.capacity)
            if highest > self._reserved:
                self._reserved += self._spool.reserve(highest - self._reserved)
            if self._descriptor < 0:
                self._descriptor = self._spool.make_file()
            for piece in [b"".join(pieces)] if len(pieces) > _MANY_PIECES else pieces:
                left = memoryview(piece)
                while left:
                    place = at % self.capacity
                    written = os.pwrite(self._descriptor, left[: self.capacity - place], place)
                    at += written
                    left = left[written:]

    def _read(self, at: int, size: int) -> bytes:
        with self._used():
            data = os.pread(self._descriptor, size, at)
            while len(data) < size:
                more = os.pread(self._descriptor, size - len(data), at + len(data))
                if not more:
                    raise SpoolUnavailable("the spool's disk lost what was written")
                data += more
            return data


class Backlog:
    """What a client has not read yet, first in first out: a little in memory, the rest on disk.

    One task puts and one gets, in one loop.
    """

    def __init__(self, spool: Spool) -> None:
        self._file = _File(spool)
        # Oldest first: what is in memory to be read, on disk, being written, and in memory to be written.
        self._front: deque[bytes] = deque()
        self._front_size = 0
        self._read_at = 0
        self._written_at = 0
        self._writing: asyncio.Task[bool] | None = None
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._moved = asyncio.Event()
        self._abandoned = False
        # Bytes that went to disk.
        self.spooled = 0

    async def put(self, data: bytes) -> None:
        """Add `data`; waits while there is no room, until some is made or the backlog is abandoned."""
        in_memory = self._read_at == self._written_at and not self._writing and not self._tail
        if in_memory and self._front_size + len(data) <= IN_MEMORY:
            self._front.append(data)
            self._front_size += len(data)
            return
        for start in range(0, len(data), BATCH) if len(data) > BATCH else (0,):
            piece = data[start : start + BATCH]
            self._tail.append(piece)
            self._tail_size += len(piece)
            while self._tail_size >= BATCH and not self._abandoned:
                if self._held_on_disk + self._tail_size > self._file.capacity:
                    await self._room(None)
                    continue
                self._writing = asyncio.create_task(self._write(self._tail, self._tail_size))
                self._tail, self._tail_size = [], 0
                if not await asyncio.shield(self._writing):
                    # Other streams may end, and what is read of this one makes room too.
                    await self._room(0.25)

    async def get(self) -> bytes | None:
        """The next bytes, or None if there are none. SpoolUnavailable if the disk fails."""
        while True:
            if self._front:
                data = self._front.popleft()
                self._front_size -= len(data)
                return data
            if self._read_at < self._written_at:
                data = await self._file.read(self._read_at, min(BATCH, self._held_on_disk))
                self._read_at += len(data)
                if self._read_at == self._written_at and not self._writing:
                    # From the beginning again, so that the file does not grow without need.
                    self._read_at = self._written_at = 0
                self._moved.set()
                return data
            if self._writing:
                await asyncio.shield(self._writing)
                continue
            if not self._tail:
                return None
            self._front.extend(self._tail)
            self._front_size = self._tail_size
            self._tail, self._tail_size = [], 0
            self._moved.set()

    def abandon(self) -> None:
        """Nobody gets any more: puts return at once."""
        self._abandoned = True
        self._moved.set()

    def close(self) -> None:
        self.abandon()
        self._file.close()

    @property
    def _held_on_disk(self) -> int:
        return self._written_at - self._read_at

    async def _write(self, pieces: list[bytes], size: int) -> bool:
        """Whether there was room for `pieces`. If not, they are to be written again."""
        try:
            await self._file.write(self._written_at, pieces)
        except SpoolUnavailable:
            self._tail = [*pieces, *self._tail]
            self._tail_size += size
            return False
        else:
            self._written_at += size
            self.spooled += size
            return True
        finally:
            self._writing = None

    async def _room(self, seconds: float | None) -> None:
        """Wait until something was read, and at most so long."""
        self._moved.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._moved.wait()


class Store:
    """A whole stream that waits to be verified: added to, then read from its beginning. In memory while it is small."""

    def __init__(self, spool: Spool) -> None:
        self._file = _File(spool)
        self._limit = spool.stream_bytes
        self._held: list[bytes] = []
        self._held_size = 0
        self._written_at = 0
        self._writing: asyncio.Future[None] | None = None
        self.size = 0

    def check(self, size: int) -> None:
        """TooLarge if so many bytes are over the limit of a stream."""
        if size > self._limit:
            raise TooLarge(f"a stream may have at most {self._limit} bytes to be opened without release=chunk")

    async def add(self, data: bytes) -> None:
        """TooLarge over the limit of a stream; SpoolUnavailable."""
        self.size += len(data)
        self.check(self.size)
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size >= BATCH and self.size > IN_MEMORY:
            await self._flush()

    async def _flush(self) -> None:
        """Write what is held. The write goes on while more comes; the one before it must have ended."""
        await self._written()
        pieces, size = self._held, self._held_size
        self._held, self._held_size = [], 0
        self._writing = asyncio.ensure_future(self._file.write(self._written_at, pieces))
        self._written_at += size

    async def _written(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            await writing

    async def pieces(self) -> AsyncGenerator[bytes]:
        """All that was added, in order, in pieces of about BATCH; the next is read while one is used."""
        await self._written()
        at = 0
        reading: asyncio.Future[bytes] | None = None
        try:
            while at < self._written_at:
                if reading is None:
                    reading = self._read(at)
                data = await reading
                at += len(data)
                reading = self._read(at) if at < self._written_at else None
                yield data
            for data in self._held:
                yield data
        finally:
            if reading is not None:
                reading.cancel()

    def _read(self, at: int) -> asyncio.Future[bytes]:
        return asyncio.ensure_future(self._file.read(at, min(BATCH, self._written_at - at)))

    def close(self) -> None:
        if self._writing is not None and not self._writing.cancel() and not self._writing.cancelled():
            self._writing.exception()  # nobody waits for it any more
        self._held = []
        self._file.close()


def _name(error: OSError) -> str:
    """The kind of error without the path, which a message would hold."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)
