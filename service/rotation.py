"""Rotating the master key: a new one is enrolled, every replica is given both, then all is rewrapped under the new one.

Each step may be repeated, and service goes on throughout: replicas wrap under the master key in their main file and
unwrap under both. docs/operations.md has the order.
"""

from collections import Counter
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.core import Core
from service.errors import MasterKeyError
from service.keys import version_purpose
from service.master import Purpose, enrol_master_key, load_master_key, make_master_key, wipe
from service.settings import Settings
from service.storage import Database, KeyRow, KeyVersionRow, MacStreamRow, MasterKeyRow, ServiceKeyRow


def add(settings: Settings, path: Path, actor: str) -> int:
    """Makes a master key in `path` unless there is one, and makes the database know it. Its id.

    MasterKeyError if the file can't be made, is exposed, or the settings' own master key is not this database's.
    """
    core = Core.open(settings)
    try:
        try:
            make_master_key(path)
        except FileExistsError:
            pass
        except OSError:
            raise MasterKeyError(f"the master key file {path} can't be made by this user") from None
        with core.database.change() as (session, revision):
            id = enrol_master_key(session, path, group_readable=settings.master_key_group_readable).current
            core.audit.change(session, revision, actor, "master-key.add", f"master-key:{id}")
        return id
    finally:
        core.audit.close()
        core.database.close()


def rewrap(settings: Settings, actor: str) -> int:
    """Wraps all keys anew that are not under the master key in the settings' main file. How many there were.

    One transaction: all or none. Uploads' states are left, and end with their uploads. MasterKeyError if a key is under
    one that is neither in the main nor in the other file.
    """
    core = Core.open(settings)
    try:
        with core.database.change() as (session, revision):
            count = _rewrap_service_keys(session, core) + _rewrap_versions(session, core)
            detail = {"rewrapped": count}
            subject = f"master-key:{core.master.current}"
            core.audit.change(session, revision, actor, "master-key.rewrap", subject, detail=detail)
        return count
    finally:
        core.audit.close()
        core.database.close()


def status(settings: Settings) -> dict[int, int]:
    """Each master key that the database knows, and how many secrets are wrapped under it: keys and open uploads."""
    database = Database(settings.database_url.get_secret_value())
    try:
        # Proves that the settings are right before anything is concluded from the numbers.
        load_master_key(
            database,
            settings.master_key_file,
            group_readable=settings.master_key_group_readable,
            other=settings.master_key_other_file,
        )
        with database.read() as session:
            found: Counter[int] = Counter(dict.fromkeys(session.scalars(select(MasterKeyRow.id)), 0))
            for table in (ServiceKeyRow, KeyVersionRow, MacStreamRow):
                counted = select(table.master_key_id, func.count()).group_by(table.master_key_id)
                if table is KeyVersionRow:
                    counted = counted.where(KeyVersionRow.wrapped.is_not(None))
                for id, number in session.execute(counted):
                    found[id] += number
        return dict(sorted(found.items()))
    finally:
        database.close()


def _rewrap_service_keys(session: Session, core: Core) -> int:
    rows = session.scalars(select(ServiceKeyRow).where(ServiceKeyRow.master_key_id != core.master.current)).all()
    for row in rows:
        _again(core, row, Purpose("service", row.name))
    return len(rows)


def _rewrap_versions(session: Session, core: Core) -> int:
    wanted = (
        select(KeyVersionRow, KeyRow.type)
        .join(KeyRow, KeyRow.name == KeyVersionRow.key_name)
        .where(KeyVersionRow.master_key_id != core.master.current, KeyVersionRow.wrapped.is_not(None))
    )
    rows = session.execute(wanted).all()
    for row, type in rows:
        _again(core, row, version_purpose(row.key_name, type, row.version, row.uid))
    return len(rows)


def _again(core: Core, row: ServiceKeyRow | KeyVersionRow, purpose: Purpose) -> None:
    secret = core.master.unwrap(row.master_key_id, row.wrapped or b"", purpose)
    try:
        row.master_key_id, row.wrapped = core.master.wrap(secret, purpose)
    finally:
        wipe(secret)
