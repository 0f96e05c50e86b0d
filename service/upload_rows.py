"""What the storage has of uploads. Each method is one transaction, and runs in a thread of the database's."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import urandom
from typing import Final

from sqlalchemy.orm import Session

from service.errors import (
    KeyNotFound,
    TooMany,
    UploadCompleted,
    UploadGone,
    UploadLength,
    UploadNotFound,
    UploadOffset,
    UploadSuperseded,
)
from service.keyring import Key, Keyring
from service.keys import MAC_TYPE, Mac, Verifier
from service.master import MasterKey, Purpose, wipe
from service.settings import Settings
from service.storage import Database, MacStreamRow, mac_streams

VALID: Final = b"\1"
INVALID: Final = b"\0"

#: Whether the caller may do an action ("mac" or "verify") with a key of this name.
Allowed = Callable[[str, str], bool]


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


class UploadRows:
    """All uploads of the installation."""

    def __init__(self, database: Database, master: MasterKey, keyring: Keyring, settings: Settings) -> None:
        self._database = database
        self._master = master
        self._keyring = keyring
        self._lifetime = timedelta(seconds=settings.upload_lifetime)
        self._retention = timedelta(seconds=settings.upload_retention)
        self._limit = settings.max_uploads
        self._origin: Callable[[Session], str] | None = None
        #: Whether a state was stored or destroyed here, which the storage's log may still have.
        self.changed = False

    def new(self, key: Key, sum: Mac | Verifier, length: int | None, claimed: bool) -> MacStreamRow:
        """The row of an upload that begins now."""
        now = datetime.now(UTC).replace(microsecond=0)
        return MacStreamRow(
            id=base64.b32encode(urandom(16)).decode().rstrip("=").lower(),
            key_name=key.name,
            key_uid=key.uid,
            key_version=sum.version or key.current,
            verifies=isinstance(sum, Verifier),
            position=0,
            length=length,
            claim=urandom(16) if claimed else None,
            created_at=now,
            expires_at=now + self._lifetime,
        )

    def _here(self, session: Session) -> str:
        if self._origin is None:
            self._origin = mac_streams.origin_of(self._database)
        return self._origin(session)

    def insert(self, row: MacStreamRow, state: bytes) -> None:
        with self._database.write() as session:
            if mac_streams.count_open(session) >= self._limit:
                raise TooMany("too many uploads are open; finish or abandon some")
            row.origin = self._here(session)
            row.master_key_id, row.state = self._master.wrap(state, _purpose(row, "mac-stream-state", 0))
            session.add(row)
        self.changed = True

    def claim(self, id: str, offset: int, length: int | None, allowed: Allowed) -> tuple[MacStreamRow, Mac | Verifier]:
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

    def ask(self, id: str, allowed: Allowed) -> Progress:
        with self._database.read() as session:
            row = session.get(MacStreamRow, id)
            if row is not None and row.claim is None:
                return self._told(session, self._usable(row, allowed))
        with self._database.write() as session:
            row = self._found(session, id, allowed)
            row.claim = None
            return self._told(session, row)

    def abandon(self, id: str, allowed: Allowed) -> Progress:
        with self._database.write() as session:
            row = self._found(session, id, allowed)
            mac_streams.remove(session, id)
            return progress(row, None)

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
            return progress(row, None)
        purpose = _purpose(row, "mac-stream-result", row.position)
        result = bytes(self._master.unwrap(row.master_key_id, row.result, purpose))
        return progress(row, result == VALID if row.verifies else result)

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
        self.changed = True

    def destroy(self, row: MacStreamRow, position: int) -> None:
        """Destroy an upload that came to more than its length."""
        with self._database.write() as session:
            if mac_streams.swap(session, row.id, _claim_of(row), position, {"claim": None}):
                mac_streams.remove(session, row.id)

    def remove_expired(self) -> bool:
        with self._database.write() as session:
            return mac_streams.remove_expired(session, datetime.now(UTC))


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


def progress(row: MacStreamRow, result: bytes | bool | None, offset: int | None = None) -> Progress:
    position = row.position if offset is None else offset
    return Progress(row.id, row.key_name, row.key_version, row.verifies, position, row.length, row.expires_at, result)
