"""MACs over uploads that pause and resume, on any worker.

What must never happen is two tags under one nonce: they give the one-time key away. So an upload's state lies in one
row of the storage. A request that goes on from it claims the row first, and may write only while its claim stands; a
later claim ends an earlier one. The tag leaves only after a transaction in which the claim still stood, the offset was
what this request had left there, and the state was destroyed. docs/decisions.md says what that does not cover.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import urandom
from time import monotonic
from typing import Final, Protocol, TypeVar

from sqlalchemy.orm import Session

from service.errors import (
    KeyDeleted,
    KeyNotFound,
    SealaneError,
    TooMany,
    UploadCompleted,
    UploadConflict,
    UploadGone,
    UploadLength,
    UploadNotFound,
    UploadOffset,
    UploadSuperseded,
)
from service.follower import Follower
from service.keyring import Key, Keyring
from service.keys import MAC_TYPE, Mac, Verifier
from service.master import MasterKey, Purpose, wipe
from service.settings import Settings
from service.storage import Database, MacStreamRow, mac_streams

_log = logging.getLogger("sealane.uploads")

# While the storage is slower than the client, an upload may be so many checkpoints ahead of it; then the client waits.
_MOST_BEHIND: Final = 8
_SWEEP_SECONDS: Final = 60.0
_PATIENCE = 5.0
_VALID, _INVALID = b"\1", b"\0"

T = TypeVar("T")
#: Whether the caller may do an action ("mac" or "verify") with a key of this name.
Allowed = Callable[[str, str], bool]


class Piecewise(Protocol):
    """The body of a request."""

    async def piece(self) -> bytes | None:
        """The next piece; None after the last."""


@dataclass(frozen=True)
class StreamPurpose(Purpose):
    """What a wrapped state or result is bound to, besides its key: the upload, how far it is, and until when and in
    which life of the database it counts."""

    stream: str = ""
    position: int = 0
    expires: int = 0
    origin: str = ""

    def aad(self) -> bytes:
        fields = (self.stream, str(self.position), str(self.expires), self.origin)
        return super().aad() + b"".join(len(field).to_bytes(2) + field for field in map(str.encode, fields))


@dataclass(frozen=True)
class Progress:
    """What may be told of an upload. `result`: of a complete one, the MAC (48 bytes) or whether it verified."""

    id: str
    key_name: str
    key_version: int
    verifies: bool
    offset: int
    length: int | None
    expires_at: datetime
    result: bytes | bool | None

    @property
    def complete(self) -> bool:
        return self.result is not None


class Uploads:
    """All uploads of the installation, and those that requests of this worker hold at the moment."""

    def __init__(
        self, database: Database, master: MasterKey, keyring: Keyring, follower: Follower, settings: Settings
    ) -> None:
        self._database = database
        self._master = master
        self._keyring = keyring
        self._lifetime = timedelta(seconds=settings.upload_lifetime)
        self._retention = timedelta(seconds=settings.upload_retention)
        self.step = settings.upload_checkpoint_bytes
        self.seconds = settings.upload_checkpoint_seconds
        self._limit = settings.max_uploads
        self._origin: Callable[[Session], str] | None = None
        self._held: dict[str, Upload] = {}
        self._swept = monotonic()
        self._written = False
        #: Called with the seconds that each checkpoint took, and whether it was written.
        self.observe: Callable[[float, bool], None] = lambda seconds, written: None
        follower.add_chore(self._sweep)

    async def create(
        self, key: Key, mac: bytes | None = None, length: int | None = None, *, claimed: bool = True
    ) -> Upload:
        """A new upload under the key's current version; with `mac`, one that verifies it. `length`: bytes, if they are
        known. Not `claimed`: the request has nothing to append.

        WrongKeyType, KeyDeleted, Malformed, TooMany, StorageUnavailable.
        """
        sum = key.mac_start() if mac is None else key.verify_start(mac)
        now = datetime.now(UTC).replace(microsecond=0)
        row = MacStreamRow(
            id=base64.b32encode(urandom(16)).decode().rstrip("=").lower(),
            key_name=key.name,
            key_uid=key.uid,
            key_version=sum.version or key.current,
            verifies=mac is not None,
            position=0,
            length=length,
            claim=urandom(16) if claimed else None,
            created_at=now,
            expires_at=now + self._lifetime,
        )
        await self._database.call(self._insert, row, sum.export_state())
        return self._hold(row, sum) if claimed else Upload(self, row, sum)

    async def claim(self, id: str, offset: int, length: int | None, allowed: Allowed) -> Upload:
        """The upload, for this request to go on with at `offset`; whoever held it holds it no more. `length`: bytes in
        all, if the request says so.

        UploadNotFound, UploadGone, UploadOffset, UploadCompleted, UploadLength, KeyDeleted, StorageUnavailable.
        """
        try:
            row, sum = await self._database.call(self._claim, id, offset, length, allowed)
        except KeyNotFound:
            # Its key, or the version, may be one that another worker made a moment ago.
            await self._keyring.refresh()
            try:
                row, sum = await self._database.call(self._claim, id, offset, length, allowed)
            except KeyNotFound:
                raise UploadNotFound from None
        before = self._held.get(id)
        if before is not None:
            before.supersede()
        return self._hold(row, sum)

    async def ask(self, id: str, allowed: Allowed) -> Progress:
        """How far it is. Whoever held it holds it no more, so that the answer stays true. UploadNotFound, UploadGone,
        StorageUnavailable."""
        await self._interrupt(id)
        return await self._database.call(self._ask, id, allowed)

    async def abandon(self, id: str, allowed: Allowed) -> Progress:
        """Destroys it; how far it was. UploadNotFound, StorageUnavailable."""
        await self._interrupt(id)
        return await self._database.call(self._abandon, id, allowed)

    def drain(self, seconds: float) -> None:
        """Write all down now, and in `seconds` end the requests that still hold one. In the loop."""
        for upload in self._held.values():
            upload.write_soon()
        asyncio.get_running_loop().call_later(seconds, self._end_all)

    async def stop(self) -> None:
        """Returns when no request holds one any more, or after a while."""
        self._end_all()
        waits = [upload.ended.wait() for upload in self._held.values()]
        if waits:
            await asyncio.wait([asyncio.ensure_future(wait) for wait in waits], timeout=_PATIENCE)

    def _end_all(self) -> None:
        for upload in list(self._held.values()):
            upload.interrupt(draining=True)

    async def _interrupt(self, id: str) -> None:
        held = self._held.get(id)
        if held is not None:
            held.interrupt()
            # One that does not end, because the storage hangs, loses its claim all the same.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await held.ended.wait()

    def _hold(self, row: MacStreamRow, sum: Mac | Verifier) -> Upload:
        upload = self._held[row.id] = Upload(self, row, sum)
        return upload

    def release(self, upload: Upload) -> None:
        """`upload`'s request is over."""
        if self._held.get(upload.id) is upload:
            del self._held[upload.id]

    # What follows runs in threads of the database.

    def _here(self, session: Session) -> str:
        if self._origin is None:
            self._origin = mac_streams.origin_of(self._database)
        return self._origin(session)

    def _insert(self, row: MacStreamRow, state: bytes) -> None:
        with self._database.write() as session:
            if mac_streams.count_open(session) >= self._limit:
                raise TooMany("too many uploads are open; finish or abandon some")
            row.origin = self._here(session)
            row.master_key_id, row.state = self._master.wrap(state, _purpose(row, "mac-stream-state", 0))
            session.add(row)
        self._written = True

    def _claim(self, id: str, offset: int, length: int | None, allowed: Allowed) -> tuple[MacStreamRow, Mac | Verifier]:
        with self._database.write(durable=False) as session:
            row = self._found(session, id, allowed)
            if row.state is None:
                raise UploadCompleted(offset=row.position)
            self._check_alive(session, row)
            if row.position != offset:
                raise UploadOffset(f"the upload is at offset {row.position}", row.position)
            if length is not None:
                if row.length not in (None, length) or length < offset:
                    raise UploadLength
                row.length = length
            self.check_key(row.key_name, row.key_uid, row.key_version if not row.verifies else None)
            state = self._master.unwrap(row.master_key_id, row.state, _purpose(row, "mac-stream-state", offset))
            try:
                sum = (Verifier if row.verifies else Mac).from_state(state)
            finally:
                wipe(state)
            row.claim = urandom(16)
            return row, sum

    def _ask(self, id: str, allowed: Allowed) -> Progress:
        with self._database.read() as session:
            row = session.get(MacStreamRow, id)
            if row is not None and row.claim is None:
                return self._told(session, self._usable(row, allowed))
        with self._database.write() as session:
            row = self._found(session, id, allowed)
            row.claim = None
            return self._told(session, row)

    def _abandon(self, id: str, allowed: Allowed) -> Progress:
        with self._database.write() as session:
            row = self._found(session, id, allowed)
            mac_streams.remove(session, id)
            return _progress(row, None)

    def _found(self, session: Session, id: str, allowed: Allowed) -> MacStreamRow:
        return self._usable(mac_streams.locked(session, id), allowed)

    @staticmethod
    def _usable(row: MacStreamRow | None, allowed: Allowed) -> MacStreamRow:
        if row is None or not allowed("verify" if row.verifies else "mac", row.key_name):
            raise UploadNotFound
        return row

    def _check_alive(self, session: Session, row: MacStreamRow) -> None:
        if row.expires_at <= datetime.now(UTC):
            raise UploadGone("the upload has expired; begin a new one")
        if row.origin != self._here(session):
            raise UploadGone("the database was restored or failed over since the upload began; begin a new one")

    def _told(self, session: Session, row: MacStreamRow) -> Progress:
        if row.result is None:
            self._check_alive(session, row)
            return _progress(row, None)
        purpose = _purpose(row, "mac-stream-result", row.position)
        result = bytes(self._master.unwrap(row.master_key_id, row.result, purpose))
        return _progress(row, result == _VALID if row.verifies else result)

    def check_key(self, name: str, uid: str, version: int | None) -> None:
        """KeyDeleted if the key is not in use now; KeyNotFound if it, or that version, is not known here."""
        key = self._keyring.get(name)
        if key.uid != uid or (version is not None and version not in key.versions):
            raise KeyNotFound
        # Says what is wrong with a key that makes no MACs now.
        key.mac_start()

    def write(self, row: MacStreamRow, position: int, new: int, state: bytes, last: bool) -> bool:
        """Store the state at offset `new`, if the claim stands and the row is at `position`. `last`: the request lets
        go of it, and tells its client. Whether it was stored."""
        master_key_id, wrapped = self._master.wrap(state, _purpose(row, "mac-stream-state", new))
        if not last:
            # What nobody was told of may be lost in a power cut.
            claim = _claim_of(row)
            return mac_streams.advance(self._database, row.id, claim, position, new, wrapped, master_key_id)
        with self._database.write() as session:
            values = {"position": new, "state": wrapped, "master_key_id": master_key_id, "claim": None}
            return mac_streams.swap(session, row.id, _claim_of(row), position, values)

    def complete(self, row: MacStreamRow, position: int, total: int, result: bytes) -> None:
        """Destroy the state and keep the result, if the claim stands and the row is at `position`; only when this
        returns may anybody have the result. UploadSuperseded, UploadGone."""
        master_key_id, wrapped = self._master.wrap(result, _purpose(row, "mac-stream-result", total))
        with self._database.write() as session:
            self._check_alive(session, row)
            until = datetime.now(UTC) + self._retention
            values = {
                "position": total, "length": total, "claim": None, "state": None, "result": wrapped,
                "master_key_id": master_key_id, "expires_at": until,
            }  # fmt: skip
            if not mac_streams.swap(session, row.id, _claim_of(row), position, values):
                raise UploadSuperseded
        row.length, row.expires_at = total, until
        self._written = True

    def destroy(self, row: MacStreamRow, position: int) -> None:
        """Destroy an upload that came to more than its length."""
        with self._database.write() as session:
            if mac_streams.swap(session, row.id, _claim_of(row), position, {"claim": None}):
                mac_streams.remove(session, row.id)

    async def call(self, work: Callable[..., T], *arguments: object) -> T:
        """`work` in a thread of the database's."""
        return await self._database.call(work, *arguments)

    async def _sweep(self) -> None:
        """Destroys what has expired. Every worker does it now and then."""
        if monotonic() - self._swept < _SWEEP_SECONDS:
            return
        self._swept = monotonic()
        if await self._database.call(self._remove_expired) or self._written:
            self._written = False
            await self._database.call(self._database.truncate_log)

    def _remove_expired(self) -> bool:
        with self._database.write() as session:
            return mac_streams.remove_expired(session, datetime.now(UTC))


class Upload:
    """An upload as one request holds it. All its methods are for that request's task alone, but those that end it."""

    def __init__(self, uploads: Uploads, row: MacStreamRow, sum: Mac | Verifier) -> None:
        self._uploads = uploads
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
        return _progress(self._row, None, self.offset)

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
            await self._uploads.call(self._uploads.destroy, self._row, self._stored)
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
            self._uploads.check_key(row.key_name, row.key_uid, None)
        except KeyNotFound:
            raise UploadNotFound from None
        except KeyDeleted:
            # That can be undone.
            await self.pause()
            raise
        result = self._sum.finish()
        kept = result if isinstance(result, bytes) else _VALID if result else _INVALID
        await self._uploads.call(self._uploads.complete, row, self._stored, self.offset, kept)
        return _progress(row, result, self.offset)

    def close(self) -> None:
        """The request is over."""
        if self._writing is not None:
            # Nobody is left to hear how it ends.
            self._writing.add_done_callback(lambda writing: writing.cancelled() or writing.exception())
        self._uploads.release(self)
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
        step = self._uploads.step
        while True:
            if self._writing is not None and self._writing.done():
                await self._settle()
            behind = self.offset - self._stored
            late = behind > 0 and monotonic() - self._stored_at >= self._uploads.seconds
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
            if self.offset - self._stored < self._uploads.step:
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
            written = await self._uploads.call(self._uploads.write, self._row, self._stored, offset, state, last)
        finally:
            self._uploads.observe(monotonic() - begun, written)
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


def _claim_of(row: MacStreamRow) -> bytes:
    assert row.claim is not None
    return row.claim


def _purpose(row: MacStreamRow, kind: str, position: int) -> StreamPurpose:
    return StreamPurpose(
        kind,
        row.key_name,
        MAC_TYPE,
        row.key_version,
        row.key_uid,
        stream=f"{row.id}:{'verify' if row.verifies else 'mac'}",
        position=position,
        # A result tells no secret, and is kept for as long as it is asked for.
        expires=int(row.expires_at.timestamp()) if kind == "mac-stream-state" else 0,
        origin=row.origin,
    )


def _progress(row: MacStreamRow, result: bytes | bool | None, offset: int | None = None) -> Progress:
    position = row.position if offset is None else offset
    return Progress(row.id, row.key_name, row.key_version, row.verifies, position, row.length, row.expires_at, result)
