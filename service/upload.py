"""An upload while a request holds it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

from service.errors import (
    KeyDeleted,
    KeyNotFound,
    SealaneError,
    UploadConflict,
    UploadLength,
    UploadNotFound,
    UploadSuperseded,
)
from service.keys import Mac, Verifier
from service.storage import Database, MacStreamRow
from service.upload_rows import INVALID, VALID, Progress, UploadRows, progress

_log = logging.getLogger("sealane.uploads")

# While the storage is slower than the client, an upload may be so many checkpoints ahead of it; then the client waits.
_MOST_BEHIND: Final = 8


class Piecewise(Protocol):
    """The body of a request."""

    async def piece(self) -> bytes | None:
        """The next piece; None after the last."""


class Checkpoints:
    """When and where uploads are stored, and who is told of it."""

    def __init__(self, database: Database, rows: UploadRows, step: int, seconds: float) -> None:
        self.database = database
        self.rows = rows
        #: Bytes after which one is due, and seconds.
        self.step = step
        self.seconds = seconds
        #: Called with the seconds that each took, and whether it was written.
        self.observe: Callable[[float, bool], None] = lambda seconds, written: None


class Upload:
    """An upload as one request holds it. All its methods are for that request's task alone, but those that end it."""

    def __init__(
        self, checkpoints: Checkpoints, row: MacStreamRow, sum: Mac | Verifier, release: Callable[[Upload], None]
    ) -> None:
        self._checkpoints = checkpoints
        self._rows = checkpoints.rows
        self._call = checkpoints.database.call
        self._release = release
        self._row = row
        self._sum = sum
        self._task = asyncio.current_task()
        self._waits = False
        self._interrupted: UploadConflict | None = None
        self._stored = self.offset = row.position
        self._stored_at = monotonic()
        self._writing: asyncio.Task[None] | None = None
        self.id = row.id
        self.draining = False
        self.ended = asyncio.Event()

    @property
    def progress(self) -> Progress:
        return progress(self._row, None, self.offset)

    async def read(self, body: Piecewise) -> None:
        """Take all of `body`. Whatever ends it early, what came until then is stored before that is raised.

        UploadSuperseded, UploadLength, StorageUnavailable, and what `body.piece` raises.
        """
        try:
            while (piece := await self._next(body)) is not None:
                if self._row.length is not None and self.offset + len(piece) > self._row.length:
                    raise UploadLength("the upload came to more than its length, and is destroyed; begin a new one")
                self._sum.update(piece)
                self.offset += len(piece)
                await self._keep_up()
        except UploadLength:
            await self._settle()
            await self._call(self._rows.destroy, self._row, self._stored)
            raise
        except UploadSuperseded as error:
            # Asked for by somebody who will be told how far it is, unless it is another's by now.
            if self._interrupted is error and error.offset is not None:
                error.offset = await self._saved()
            raise
        except BaseException:
            await self._saved()
            raise

    async def pause(self) -> None:
        """Store it, and let go of it. UploadSuperseded, StorageUnavailable."""
        await self._settle()
        await self._write(self.offset, self._sum.export_state(), last=True)

    async def finish(self) -> Progress:
        """With the MAC, or whether it verified; the state is destroyed. UploadLength (it is stored, for more to come),
        UploadSuperseded, UploadGone, KeyDeleted, StorageUnavailable (it may be complete all the same)."""
        row = self._row
        if row.length is not None and self.offset != row.length:
            await self.pause()
            raise UploadLength("the upload is shorter than its length")
        await self._settle()
        try:
            self._rows.check_key(row.key_name, row.key_uid, None)
        except KeyNotFound:
            raise UploadNotFound from None
        except KeyDeleted:
            # That can be undone.
            await self.pause()
            raise
        result = self._sum.finish()
        kept = result if isinstance(result, bytes) else VALID if result else INVALID
        await self._call(self._rows.complete, row, self._stored, self.offset, kept)
        return progress(row, result, self.offset)

    def close(self) -> None:
        """The request is over."""
        if self._writing is not None:
            # Nobody is left to hear how it ends.
            self._writing.add_done_callback(lambda writing: writing.cancelled() or writing.exception())
        self._release(self)
        self.ended.set()

    def interrupt(self, *, draining: bool = False) -> None:
        """Have its request store it and end; from outside."""
        self.draining = draining
        self._end(UploadSuperseded("another request asked for the upload", self.offset))

    def supersede(self) -> None:
        """Its request has lost it, and is to end; from outside."""
        self._end(UploadSuperseded())

    def write_soon(self) -> None:
        """Have what there is stored; from outside."""
        self._stored_at = float("-inf")
        if self._writing is None and self._waits and self.offset > self._stored:
            self._begin_writing()

    def _end(self, reason: UploadSuperseded) -> None:
        if self._interrupted is None:
            self._interrupted = reason
            # Only a wait for the client may be cut: what is being stored is stored.
            if self._waits and self._task is not None:
                self._task.cancel()

    async def _next(self, body: Piecewise) -> bytes | None:
        if self._interrupted is not None:
            raise self._interrupted
        self._waits = True
        try:
            return await body.piece()
        except asyncio.CancelledError:
            if self._interrupted is None or self._task is None:
                raise
            self._task.uncancel()
            raise self._interrupted from None
        finally:
            self._waits = False

    async def _keep_up(self) -> None:
        """Begin a checkpoint if one is due and none is on its way; wait for one that is far behind."""
        step = self._checkpoints.step
        while True:
            if self._writing is not None and self._writing.done():
                await self._settle()
            behind = self.offset - self._stored
            late = behind > 0 and monotonic() - self._stored_at >= self._checkpoints.seconds
            if self._writing is None and (behind >= step or late):
                self._begin_writing()
            if self._writing is None or behind < _MOST_BEHIND * step:
                return
            await asyncio.wait([self._writing])

    def _begin_writing(self) -> None:
        self._writing = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        """Store it until less than a checkpoint's worth is not stored, also when the client says no more."""
        while True:
            await self._write(self.offset, self._sum.export_state(), last=False)
            if self.offset - self._stored < self._checkpoints.step:
                return

    async def _settle(self) -> None:
        """Wait for a checkpoint that is on its way; raises what it raised."""
        writing, self._writing = self._writing, None
        if writing is not None:
            await asyncio.wait([writing])
            writing.result()

    async def _write(self, offset: int, state: bytes, *, last: bool) -> None:
        begun = monotonic()
        written = False
        try:
            written = await self._call(self._rows.write, self._row, self._stored, offset, state, last)
        finally:
            self._checkpoints.observe(monotonic() - begun, written)
        if not written:
            raise UploadSuperseded
        self._stored, self._stored_at = offset, monotonic()

    async def _saved(self) -> int | None:
        """Store it on the way out of a request that failed; the offset, or None if that failed too."""
        try:
            await self.pause()
        except SealaneError as error:
            _log.debug("an upload was not stored: %s", error.detail)
            return None
        return self.offset
