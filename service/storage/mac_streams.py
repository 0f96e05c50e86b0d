"""The table of MACs over uploads: claims, compare-and-swap, and which life of the database a row belongs to.

A request claims a row under a random name of its own, and every later statement of it names that claim. So among all
requests on all workers at most one can change a row, and it is the one that claimed it last.
"""

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import CursorResult, delete, func, select, text, update
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session

from service.errors import StorageUnavailable
from service.storage.database import Database
from service.storage.models import MacStreamRow

# The cluster, its timeline (another one after a failover or a recovery to a point in time), and the table (another one
# after a dump was restored).
_ORIGIN = text(
    "SELECT (SELECT system_identifier FROM pg_control_system())::text"
    " || ':' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || ':' || 'mac_streams'::regclass::oid::text"
)
_ADVANCE = (
    "UPDATE mac_streams SET position = :new, state = :state, master_key_id = :master_key_id"
    " WHERE id = :id AND claim = :claim AND position = :position AND state IS NOT NULL"
)
# Where those functions may not be called, or are not there.
_TABLE = text("SELECT 'mac_streams'::regclass::oid::text")


def origin_of(database: Database) -> Callable[[Session], str]:
    """A function that names the life of the database: another name means that it may have gone back to an earlier
    state, in which uploads are open that were finished since. Not every restored copy shows: see docs/decisions.md.

    StorageUnavailable."""
    file = database.file
    if file is not None:
        return lambda _: f"inode:{os.stat(file).st_ino}"
    statement = _ORIGIN
    try:
        with database.read() as session:
            session.execute(_ORIGIN)
    except StorageUnavailable as error:
        if not isinstance(error.__context__, ProgrammingError):
            raise
        statement = _TABLE
    return lambda session: str(session.scalar(statement))


def count_open(session: Session) -> int:
    return session.scalar(select(func.count()).where(MacStreamRow.state.is_not(None))) or 0


def locked(session: Session, id: str) -> MacStreamRow | None:
    """The row, which nobody else changes before this transaction ends."""
    return session.scalar(select(MacStreamRow).where(MacStreamRow.id == id).with_for_update())


def advance(
    database: Database, id: str, claim: bytes, position: int, new: int, state: bytes, master_key_id: int
) -> bool:
    """As `swap`, for a checkpoint on the way: cheap, and not durable."""
    values = {
        "id": id, "claim": claim, "position": position, "new": new, "state": state, "master_key_id": master_key_id
    }  # fmt: skip
    return database.update_alone(_ADVANCE, values) > 0


def swap(session: Session, id: str, claim: bytes, position: int, values: dict[str, Any]) -> bool:
    """Set `values` in the open row if it is still claimed so and at `position`. Whether it was."""
    row = MacStreamRow
    here = (row.id == id, row.claim == claim, row.position == position, row.state.is_not(None))
    return _changed(session, update(row).where(*here).values(values))


def remove(session: Session, id: str) -> bool:
    """Whether there was one."""
    return _changed(session, delete(MacStreamRow).where(MacStreamRow.id == id))


def remove_of_key(session: Session, key_name: str) -> None:
    session.execute(delete(MacStreamRow).where(MacStreamRow.key_name == key_name))


def remove_expired(session: Session, now: datetime) -> bool:
    """Whether there were any."""
    return _changed(session, delete(MacStreamRow).where(MacStreamRow.expires_at <= now))


def _changed(session: Session, statement: Any) -> bool:
    result = session.execute(statement.execution_options(synchronize_session=False))
    assert isinstance(result, CursorResult)
    return result.rowcount > 0
