"""All keys, in memory, in step with the storage; and the changes to them.

Names are never looked up in the storage on the hot path: `get` is a look-up in a dict. Each change is one transaction
with its audit record, and in force on this worker when the call returns.
"""

import builtins
import logging
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import urandom
from time import monotonic
from typing import Final
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.audit import AuditTrail
from service.errors import KeyDeleted, KeyExists, KeyNotFound, LimitReached, Malformed, StorageUnavailable
from service.follower import Follower
from service.formats import MAX_VERSION
from service.keys import (
    ACTIVE,
    DEFAULT_TYPE,
    DESTROYED,
    KEY_TYPES,
    PENDING,
    Key,
    KeyVersion,
    Mac,
    Verifier,
    version_purpose,
)
from service.leases import Leases
from service.master import MasterKey, wipe
from service.storage import Database, KeyRow, KeyVersionRow, mac_streams

__all__ = ["DEFAULT_TYPE", "KEY_TYPES", "Key", "KeyInfo", "KeyVersion", "Keyring", "Mac", "Verifier", "check_name"]

_log = logging.getLogger("sealane.keyring")

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_NAME_RULE = (
    "wanted a key name of 1 to 128 characters out of a-z 0-9 . _ - that begins with a letter or digit, without .."
)
SYSTEM: Final = "system"

Rows = tuple[list[KeyRow], list[KeyVersionRow]]


@dataclass(frozen=True)
class VersionInfo:
    version: int
    created_at: datetime


@dataclass(frozen=True)
class KeyInfo:
    """What may be told of a key; never material. `state`: active, pending-deletion or destroyed."""

    name: str
    type: str
    state: str
    current_version: int
    versions: tuple[VersionInfo, ...]
    created_at: datetime
    delete_at: datetime | None


def check_name(name: str) -> str:
    """The name. Malformed, with the rule, if it can't be one."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise Malformed(_NAME_RULE)
    return name


class Keyring:
    """Keys by name. `deletion_delay`: seconds from scheduling a deletion until it is due."""

    def __init__(
        self,
        database: Database,
        master: MasterKey,
        follower: Follower,
        audit: AuditTrail,
        leases: Leases,
        *,
        deletion_delay: float = 7 * 86400,
    ) -> None:
        self._database = database
        self._master = master
        self._follower = follower
        self._audit = audit
        self._leases = leases
        self._deletion_delay = timedelta(seconds=deletion_delay)
        self._keys: dict[str, Key] = {}
        self._pending: dict[str, datetime] = {}
        self._sorted: list[str] | None = None
        follower.add(self)
        follower.add_chore(self._leases.top_up)
        follower.add_chore(self._sweep)

    def get(self, name: str) -> Key:
        """The key. KeyNotFound; StorageUnavailable if what is loaded is too old to serve."""
        if monotonic() > self._follower.fresh_until:
            self._follower.check_fresh()
        key = self._keys.get(name)
        if key is None:
            raise KeyNotFound
        return key

    async def find(self, name: str) -> Key:
        """As `get`; asks the storage for a key it does not know, made a moment ago by another worker."""
        try:
            return self.get(name)
        except KeyNotFound:
            if not _NAME.fullmatch(name):
                raise
        await self._follower.refresh()
        return self.get(name)

    async def newer(self, key: Key) -> Key:
        """The key after a refresh, for a message that names a version not known here. As `get`."""
        await self._follower.refresh()
        return self.get(key.name)

    async def ensure_lease(self, key: Key, count: int = 1) -> None:
        """Reserves what `key.needs_lease(count)` asked for. LimitReached, StorageUnavailable."""
        version = key.versions.get(key.current)
        if version is not None and version.lease is not None:
            await self._leases.ensure(version.lease, count)

    async def refresh(self) -> None:
        """Brings all up to now. StorageUnavailable."""
        await self._follower.refresh()

    @property
    def degraded(self) -> bool:
        """Whether the storage is lost and what is loaded serves on."""
        return self._follower.degraded

    @property
    def fault(self) -> str | None:
        return self._follower.fault

    @property
    def staleness_seconds(self) -> float:
        return self._follower.staleness_seconds

    def describe(self, name: str) -> KeyInfo:
        """As `get`."""
        return _info(self.get(name))

    def list(
        self, prefix: str = "", limit: int = 100, after: str = "", visible: Callable[[str], bool] | None = None
    ) -> list[KeyInfo]:
        """Up to `limit` keys in order of name, that begin with `prefix`, come after `after`, and are `visible`."""
        self._follower.check_fresh()
        if self._sorted is None:
            self._sorted = sorted(self._keys)
        names = self._sorted
        found: builtins.list[KeyInfo] = []
        # Names before `prefix` can't begin with it.
        start = bisect_right(names, after) if after >= prefix else bisect_left(names, prefix)
        for index in range(start, len(names)):
            name = names[index]
            if len(found) >= limit or not name.startswith(prefix):
                break
            if visible is None or visible(name):
                found.append(_info(self._keys[name]))
        return found

    async def create(
        self, name: str, type: str = DEFAULT_TYPE, *, actor: str, request_id: str | None = None
    ) -> KeyInfo:
        """A new key with one version. Malformed, KeyExists, StorageUnavailable.

        The name of a destroyed key may be used again; its version numbers go on where they stopped, so that no two
        keys ever share a name and version.
        """
        check_name(name)
        if type not in KEY_TYPES:
            raise Malformed(f"wanted a key type out of: {' '.join(KEY_TYPES)}")
        return await self._change(self._create, name, type, actor, request_id)

    async def rotate(self, name: str, *, actor: str, request_id: str | None = None) -> KeyInfo:
        """A new version, used from now on. KeyNotFound, KeyDeleted, StorageUnavailable."""
        return await self._change(self._rotate, name, actor, request_id)

    async def schedule_deletion(self, name: str, *, actor: str, request_id: str | None = None) -> KeyInfo:
        """Takes the key out of use now and destroys it after the delay. If it is scheduled already, that stands.

        KeyNotFound, StorageUnavailable.
        """
        return await self._change(self._schedule, name, actor, request_id)

    async def undo_deletion(self, name: str, *, actor: str, request_id: str | None = None) -> KeyInfo:
        """Puts the key back into use. No change if it is in use. KeyDeleted if it is due; KeyNotFound."""
        return await self._change(self._undo, name, actor, request_id)

    async def stop(self) -> None:
        """Gives back what is left of leases. Errors are logged: a worker that stops has nobody to tell."""
        try:
            await self._leases.give_back()
        except StorageUnavailable as error:
            _log.warning("unused leases are lost: %s", error.detail)

    def read(self, session: Session, since: int) -> Rows:
        keys = select(KeyRow).where(KeyRow.revision > since)
        versions = select(KeyVersionRow).where(KeyVersionRow.revision > since, KeyVersionRow.wrapped.is_not(None))
        if not since:
            # Destroyed keys are news only to those who hold them.
            keys = keys.where(KeyRow.state != DESTROYED)
        return builtins.list(session.scalars(keys)), builtins.list(session.scalars(versions))

    def apply(self, rows: Rows, *, whole: bool) -> None:
        keys, versions = rows
        held = self._keys
        if whole:
            self._keys = {}
            self._pending = {}
        by_name: dict[str, builtins.list[KeyVersionRow]] = {}
        for version in versions:
            by_name.setdefault(version.key_name, []).append(version)
        for row in keys:
            # What was unwrapped, and what is leased, is kept.
            old = held.get(row.name)
            if old is not None and old.uid != row.uid:
                old = None
            if old is not None and old.revision > row.revision and not whole:
                continue
            self._pending.pop(row.name, None)
            if row.state == DESTROYED:
                self._keys.pop(row.name, None)
            else:
                self._keys[row.name] = self._key(row, old, by_name.get(row.name, []))
                if row.delete_at is not None:
                    self._pending[row.name] = row.delete_at
        self._sorted = None

    def _key(self, row: KeyRow, old: Key | None, rows: builtins.list[KeyVersionRow]) -> Key:
        versions = dict(old.versions) if old is not None else {}
        for found in rows:
            if found.uid == row.uid and found.version not in versions and found.wrapped is not None:
                purpose = version_purpose(row.name, row.type, found.version, row.uid)
                versions[found.version] = KeyVersion(
                    purpose, found.created_at, self._master, found.master_key_id, found.wrapped
                )
        return Key(
            row.name, row.uid, row.type, row.state, row.current, row.created_at, row.delete_at, row.revision, versions
        )

    async def _change(self, change: Callable[..., Rows], *args: object) -> KeyInfo:
        rows = await self._database.call(change, *args)
        (row,), versions = rows
        self.apply(rows, whole=False)
        self._follower.heard(row.revision)
        return _info(self._key(row, None, versions))

    def _create(self, name: str, type: str, actor: str, request_id: str | None) -> Rows:
        now = datetime.now(UTC)
        with self._database.change() as (session, revision):
            row = session.get(KeyRow, name)
            if row is None:
                row = KeyRow(name=name, current=0)
                session.add(row)
            elif row.state != DESTROYED:
                raise KeyExists
            row.uid = uuid4().hex
            row.type = type
            row.state = ACTIVE
            row.created_at = now
            row.delete_at = None
            self._add_version(session, row, revision, now)
            self._record(session, revision, actor, "key.create", row, request_id, type=type)
            return self._rows(session, row)

    def _rotate(self, name: str, actor: str, request_id: str | None) -> Rows:
        with self._database.change() as (session, revision):
            row = _existing(session, name)
            if row.state != ACTIVE:
                raise KeyDeleted("the key is scheduled for deletion; undo that before rotating it")
            if row.current >= MAX_VERSION:
                raise LimitReached("the key has as many versions as there are numbers for")
            self._add_version(session, row, revision, datetime.now(UTC))
            self._record(session, revision, actor, "key.rotate", row, request_id)
            return self._rows(session, row)

    def _schedule(self, name: str, actor: str, request_id: str | None) -> Rows:
        with self._database.change() as (session, revision):
            row = _existing(session, name)
            if row.state == ACTIVE:
                row.state = PENDING
                row.delete_at = datetime.now(UTC) + self._deletion_delay
            row.revision = revision
            due = None if row.delete_at is None else row.delete_at.isoformat()
            self._record(session, revision, actor, "key.schedule-deletion", row, request_id, delete_at=due)
            return self._rows(session, row)

    def _undo(self, name: str, actor: str, request_id: str | None) -> Rows:
        with self._database.change() as (session, revision):
            row = _existing(session, name)
            if row.delete_at is not None and row.delete_at <= datetime.now(UTC):
                raise KeyDeleted("the deletion of the key is due and can't be undone any more")
            row.state = ACTIVE
            row.delete_at = None
            row.revision = revision
            self._record(session, revision, actor, "key.undo-deletion", row, request_id)
            return self._rows(session, row)

    async def _sweep(self) -> None:
        """Destroys what is due; every worker tries, and one does it."""
        now = datetime.now(UTC)
        due = [name for name, delete_at in self._pending.items() if delete_at <= now]
        for name in due:
            try:
                rows = await self._database.call(self._destroy, name)
            except KeyNotFound:
                # Another worker was first, or the deletion was undone: the next poll brings it.
                continue
            self.apply(rows, whole=False)
        if due:
            await self._database.call(self._database.truncate_log)

    def _destroy(self, name: str) -> Rows:
        now = datetime.now(UTC)
        with self._database.change() as (session, revision):
            row = _existing(session, name)
            if row.delete_at is None or row.delete_at > now:
                raise KeyNotFound
            row.state = DESTROYED
            row.revision = revision
            for version in _versions(session, name):
                version.wrapped = None
                version.destroyed_at = now
                version.revision = revision
            # Their states hold one-time keys that were made from this key.
            mac_streams.remove_of_key(session, name)
            self._record(session, revision, SYSTEM, "key.destroy", row, None)
            return [row], []

    def _add_version(self, session: Session, row: KeyRow, revision: int, now: datetime) -> None:
        row.current += 1
        row.revision = revision
        # The key's row first: the version's refers to it.
        session.flush()
        secret = bytearray(urandom(32))
        purpose = version_purpose(row.name, row.type, row.current, row.uid)
        master_key_id, wrapped = self._master.wrap(secret, purpose)
        wipe(secret)
        session.add(
            KeyVersionRow(
                key_name=row.name,
                version=row.current,
                uid=row.uid,
                master_key_id=master_key_id,
                wrapped=wrapped,
                reserved=0,
                created_at=now,
                destroyed_at=None,
                revision=revision,
            )
        )

    def _record(
        self,
        session: Session,
        revision: int,
        actor: str,
        action: str,
        row: KeyRow,
        request_id: str | None,
        **detail: object,
    ) -> None:
        self._audit.change(session, revision, actor, action, f"key:{row.name}", row.current, detail, request_id)

    @staticmethod
    def _rows(session: Session, row: KeyRow) -> Rows:
        """The key with all its versions: this worker may not have heard of every one."""
        session.flush()
        return [row], _versions(session, row.name)


def _existing(session: Session, name: str) -> KeyRow:
    row = session.get(KeyRow, name)
    if row is None or row.state == DESTROYED:
        raise KeyNotFound
    return row


def _versions(session: Session, name: str) -> list[KeyVersionRow]:
    row = KeyVersionRow
    return list(session.scalars(select(row).where(row.key_name == name, row.wrapped.is_not(None))))


def _info(key: Key) -> KeyInfo:
    versions = tuple(VersionInfo(version.version, version.created_at) for _, version in sorted(key.versions.items()))
    return KeyInfo(key.name, key.type, key.state, key.current, versions, key.created_at, key.delete_at)
