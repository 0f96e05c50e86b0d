"""The audit trail: every change in the database, and every call in a file when one is set.

Changes are written in the transaction that makes them, each chained to the one before by an HMAC under a key that is
itself wrapped by the master key: whoever can write to the database alone can neither alter nor drop one unseen.

Calls go to a file as JSON lines, each appended by a single write, so that all workers share one file. They are not
chained: that would put the workers in line at every call.
"""

import asyncio
import hashlib
import hmac
import json
import os
import stat
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.errors import AuditUnavailable
from service.storage import AuditRow, Database, StateRow

AUDIT_KEY: Final = "audit"
_GENESIS: Final = bytes(32)
# Long trails are walked without holding them whole.
_PAGED: Final[dict[str, Any]] = {"yield_per": 1000}
_FAILED: Final = "the audit file can't be written, so nothing is served"


class CallRecord(msgspec.Struct, omit_defaults=True):
    """Who did what with which key, and how it ended; sizes, never content."""

    at: str
    actor: str
    action: str
    key: str | None
    version: int | None
    outcome: str
    bytes_in: int
    bytes_out: int
    items: int | None = None
    failed: int | None = None
    request_id: str | None = None
    stream: str | None = None


class AuditTrail:
    """`key`: 32 bytes, that of the chain. `file`: where calls go, or None. `sync`: each call's line must be on disk."""

    def __init__(self, key: bytes | bytearray, file: Path | None = None, *, sync: bool = False) -> None:
        self._hmac = hmac.new(key, digestmod=hashlib.sha256)
        self._path = file
        self._descriptor = -1
        self._torn = False
        self._encode = msgspec.json.Encoder().encode
        self._syncing: asyncio.Task[None] | None = None
        self._sync_next: asyncio.Task[None] | None = None
        self.records_calls = file is not None
        self._sync = sync
        self.needs_sync = file is not None and sync

    def open(self) -> None:
        """AuditUnavailable if the file can't be appended to."""
        if self._path is None or self._descriptor >= 0:
            return
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
        except OSError:
            raise AuditUnavailable("the audit file can't be opened, so nothing is served") from None
        # A pipe or a terminal has no disk to be on.
        self.needs_sync = self._sync and stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def change(
        self,
        session: Session,
        revision: int,
        actor: str,
        action: str,
        subject: str,
        version: int | None = None,
        detail: dict[str, Any] | None = None,
        request_id: str | None = None,
    ) -> None:
        """Records a change in the transaction that makes it."""
        row = AuditRow(
            revision=revision,
            at=datetime.now(UTC),
            actor=actor,
            action=action,
            subject=subject,
            version=version,
            detail=detail or {},
            request_id=request_id,
        )
        before = session.scalar(select(AuditRow.mac).order_by(AuditRow.revision.desc()).limit(1))
        row.mac = self._chain(before or _GENESIS, row)
        session.add(row)

    def call(
        self,
        actor: str,
        action: str,
        key: str | None,
        version: int | None,
        outcome: str,
        bytes_in: int = 0,
        bytes_out: int = 0,
        *,
        items: int | None = None,
        failed: int | None = None,
        request_id: str | None = None,
        stream: str | None = None,
    ) -> None:
        """Appends one call to the file; does nothing when none is set. AuditUnavailable: then do not answer the call.

        `outcome`: "ok" or an error's slug. When `needs_sync`, `await sync()` before answering.
        """
        if not self.records_calls:
            return
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        record = CallRecord(
            at, actor, action, key, version, outcome, bytes_in, bytes_out, items, failed, request_id, stream
        )
        self._append(self._encode(record) + b"\n")

    async def sync(self) -> None:
        """Returns when all lines so far are on disk. Calls that come at once share one fdatasync. AuditUnavailable."""
        if self._sync_next is None:
            self._sync_next = asyncio.create_task(self._sync_after(self._syncing))
            self._sync_next.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._sync_next)

    async def follow_rotation(self) -> None:
        """Reopens the file when another took its place, as logrotate does; called now and then."""
        if self._descriptor < 0 or self._path is None:
            return
        mine = os.fstat(self._descriptor)
        try:
            theirs = os.stat(self._path)
            moved = (mine.st_dev, mine.st_ino) != (theirs.st_dev, theirs.st_ino)
        except OSError:
            moved = True
        if moved:
            self.close()
            # A failure is met again, and reported, by the next call.
            try:
                self.open()
            except AuditUnavailable:
                return

    def verify(self, database: Database) -> int:
        """Walks the chain of changes; how many there are. AuditUnavailable naming the first revision that is wrong."""
        with database.read() as session:
            count = self._walk(
                session.scalars(select(AuditRow).order_by(AuditRow.revision).execution_options(**_PAGED))
            )
            last = session.scalar(select(StateRow.revision)) or 0
        # Every revision has its record, so a trail cut short is found too. (Read last: changes may have come since.)
        if last < count or (last > count and not self._reaches(database, last)):
            raise AuditUnavailable(f"the audit trail was cut short after revision {count}")
        return count

    @staticmethod
    def _reaches(database: Database, revision: int) -> bool:
        with database.read() as session:
            return session.get(AuditRow, revision) is not None

    def _walk(self, rows: Iterable[AuditRow]) -> int:
        before, count = _GENESIS, 0
        for row in rows:
            count += 1
            if row.revision != count or not hmac.compare_digest(row.mac, self._chain(before, row)):
                raise AuditUnavailable(f"the audit trail was altered at or just before revision {row.revision}")
            before = row.mac
        return count

    def _chain(self, before: bytes, row: AuditRow) -> bytes:
        fields: Sequence[Any] = (
            row.revision,
            row.at.astimezone(UTC).isoformat(timespec="microseconds"),
            row.actor,
            row.action,
            row.subject,
            row.version,
            row.detail,
            row.request_id,
        )
        mac = self._hmac.copy()
        mac.update(before + json.dumps(fields, sort_keys=True).encode())
        return mac.digest()

    def _append(self, line: bytes) -> None:
        if self._descriptor < 0:
            self.open()
        if self._torn:
            # Part of an earlier line is there: end it, so that it spoils itself alone.
            line = b"\n" + line
        try:
            written = os.write(self._descriptor, line)
        except OSError:
            raise AuditUnavailable(_FAILED) from None
        self._torn = written != len(line)
        if self._torn:
            raise AuditUnavailable(_FAILED)

    async def _sync_after(self, running: asyncio.Task[None] | None) -> None:
        if running is not None:
            await asyncio.wait([running])
        self._syncing, self._sync_next = self._sync_next, None
        try:
            await asyncio.to_thread(os.fdatasync, self._descriptor)
        except OSError:
            raise AuditUnavailable(_FAILED) from None
