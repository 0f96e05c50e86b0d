"""The master key: 32 bytes in a file, under which every key version is wrapped at rest.

Wrapping is XChaCha20-Poly1305 with a random 24-byte nonce; the AAD names what the wrapped bytes are, so that a row
can't pass for another one. Rows name their master key by id, so that a later one can take over row by row.
"""

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

import engine
from service.errors import MasterKeyError, StorageUnavailable
from service.storage import Database, KeyVersionRow, MasterKeyRow, ServiceKeyRow

MASTER_KEY_SIZE: Final = 32
_LABEL: Final = b"sealane wrapped secret v1"
_CHECK: Final = b"sealane master key check v1"
_NONCE: Final = 24


@dataclass(frozen=True)
class Purpose:
    """What a wrapped secret is: all of it is authenticated. `uid` tells one life of a name from the next."""

    kind: str
    name: str
    type: str = ""
    version: int = 0
    uid: str = ""

    def aad(self) -> bytes:
        # Length before each field: no two purposes share an encoding.
        fields = (self.kind, self.name, self.type, str(self.version), self.uid)
        return _LABEL + b"".join(len(field).to_bytes(2) + field for field in map(str.encode, fields))


class MasterKey:
    """Wraps and unwraps, with the keys of this installation; the first one wraps."""

    def __init__(self, keys: dict[int, engine.Aead]) -> None:
        self._keys = keys
        self.current = next(iter(keys))

    def wrap(self, secret: bytes | bytearray, purpose: Purpose) -> tuple[int, bytes]:
        """The id of the master key that wrapped, and nonce (24) || ciphertext || tag (16)."""
        return self.current, self._keys[self.current].seal_framed(b"", secret, purpose.aad())

    def unwrap(self, master_key_id: int, wrapped: bytes, purpose: Purpose) -> bytearray:
        """The secret, for the caller to wipe. StorageUnavailable if the row was altered, moved or needs another key."""
        key = self._keys.get(master_key_id)
        if key is None:
            raise StorageUnavailable("a stored key is wrapped under a master key that this worker does not have")
        secret = bytearray(max(0, len(wrapped) - _NONCE - 16))
        view = memoryview(wrapped)
        try:
            key.open_into(view[:_NONCE], view[_NONCE:], secret, purpose.aad())
        except (engine.InvalidTag, ValueError):
            raise StorageUnavailable("a stored key does not unwrap: its row was altered or damaged") from None
        return secret


def wipe(secret: bytearray) -> None:
    secret[:] = bytes(len(secret))


def read_master_key(path: Path, *, group_readable: bool = False) -> bytearray:
    """The 32 bytes, for the caller to wipe. MasterKeyError with the command that mends it, if the file is missing,
    of another size, or readable by others than its owner (`group_readable`: and its group)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise MasterKeyError(
            f"the master key file {path} is missing; restore it, or for a new one: {_make(path)}"
        ) from None
    except OSError:
        raise MasterKeyError(f"this user may not read the master key file {path}; run: chown $USER {path}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise MasterKeyError(f"{path} is not a file; set SEALANE_MASTER_KEY_FILE to one, made by: {_make(path)}")
        forbidden = 0o037 if group_readable else 0o077
        if status.st_mode & forbidden:
            mode = "640" if group_readable else "600"
            raise MasterKeyError(
                f"the master key file {path} may be read or changed by others than its owner; run: chmod {mode} {path}"
            )
        secret = bytearray(MASTER_KEY_SIZE)
        if status.st_size != MASTER_KEY_SIZE or os.readv(descriptor, [secret]) != MASTER_KEY_SIZE:
            wipe(secret)
            raise MasterKeyError(
                f"the master key file {path} holds {status.st_size} bytes, wanted {MASTER_KEY_SIZE}; "
                f"restore it, or for a new one: {_make(path)}"
            )
        return secret
    finally:
        os.close(descriptor)


def make_master_key(path: Path) -> None:
    """Writes a new key where there is none. FileExistsError if there is one: it is never replaced. OSError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        # Something there that is no folder; it must not pass for a key that is there.
        raise NotADirectoryError from None
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb", buffering=0) as file:
        file.write(os.urandom(MASTER_KEY_SIZE))
        os.fsync(descriptor)


def load_master_key(
    database: Database, path: Path, *, group_readable: bool = False, other: Path | None = None
) -> MasterKey:
    """The master key in `path`, which wraps, and that in `other`, which only unwraps; the database must know both.

    MasterKeyError if either is none that the database knows, or if rows are wrapped under one that is in neither.
    """
    with database.read() as session:
        rows = list(session.scalars(select(MasterKeyRow).order_by(MasterKeyRow.id.desc())))
        used = set(session.scalars(select(KeyVersionRow.master_key_id).where(KeyVersionRow.wrapped.is_not(None))))
        used |= set(session.scalars(select(ServiceKeyRow.master_key_id)))
    if not rows:
        raise MasterKeyError("the database knows no master key yet; run: sealane init")
    keys: dict[int, engine.Aead] = {}
    for file in filter(None, (path, other)):
        key = _aead(file, group_readable)
        known = next((row.id for row in rows if _opens(key, row)), None)
        if known is None:
            raise MasterKeyError(
                f"the master key in {file} is the wrong one for the database at {database.place}; "
                "set SEALANE_MASTER_KEY_FILE to the one it was made with"
            )
        keys.setdefault(known, key)
    if not used <= set(keys):
        raise MasterKeyError(
            f"some keys in the database at {database.place} are wrapped under another master key than that in {path}; "
            "set SEALANE_MASTER_KEY_OTHER_FILE to it, and run: sealane master-key rewrap"
        )
    return MasterKey(keys)


def enrol_master_key(session: Session, path: Path, *, group_readable: bool = False) -> MasterKey:
    """Makes the database know a master key, its first or a further one, by storing its check value.

    One that it knows already is left as it is.
    """
    key = _aead(path, group_readable)
    rows = list(session.scalars(select(MasterKeyRow)))
    for row in rows:
        if _opens(key, row):
            return MasterKey({row.id: key})
    id = max((row.id for row in rows), default=0) + 1
    check = key.seal_framed(b"", _CHECK, Purpose("check", "master", version=id).aad())
    session.add(MasterKeyRow(id=id, check_value=check, created_at=datetime.now(UTC)))
    session.flush()
    return MasterKey({id: key})


def make_service_key(session: Session, master: MasterKey, name: str) -> None:
    """A new random key of the service's own, stored wrapped."""
    secret = bytearray(os.urandom(32))
    master_key_id, wrapped = master.wrap(secret, Purpose("service", name))
    wipe(secret)
    session.add(ServiceKeyRow(name=name, master_key_id=master_key_id, wrapped=wrapped))


def service_key(database: Database, master: MasterKey, name: str) -> bytearray:
    """A key of the service's own, for the caller to wipe. StorageUnavailable."""
    with database.read() as session:
        row = session.get(ServiceKeyRow, name)
    if row is None:
        raise StorageUnavailable("the database lacks a key of the service's own; run: sealane init")
    return master.unwrap(row.master_key_id, row.wrapped, Purpose("service", name))


def _aead(path: Path, group_readable: bool) -> engine.Aead:
    secret = read_master_key(path, group_readable=group_readable)
    try:
        return engine.Aead(secret, "xchacha20-poly1305")
    finally:
        wipe(secret)


def _opens(key: engine.Aead, row: MasterKeyRow) -> bool:
    try:
        aad = Purpose("check", "master", version=row.id).aad()
        return key.open_framed(row.check_value, 0, aad) == _CHECK
    except (engine.InvalidTag, ValueError):
        return False


def _make(path: Path) -> str:
    return f"(umask 077; head -c {MASTER_KEY_SIZE} /dev/urandom > {path})"
