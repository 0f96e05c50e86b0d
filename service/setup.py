"""`sealane init`, and what `sealane serve --dev` needs: schema, master key, first keys and token."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from sqlalchemy.orm import Session

from service.access import Grant, new_token
from service.audit import AUDIT_KEY, AuditTrail
from service.core import Core
from service.errors import KeyExists, MasterKeyError, StorageUnavailable
from service.keyring import DEFAULT_TYPE, SYSTEM
from service.keys import MAC_TYPE
from service.master import Purpose, enrol_master_key, load_master_key, make_master_key, make_service_key, wipe
from service.settings import Settings
from service.storage import Database, ServiceKeyRow, StateRow
from service.storage.schema import migrate

DEV_KEY = "demo"
DEV_MAC_KEY = "demo-mac"


@dataclass(frozen=True)
class Initialised:
    """What `initialise` found to do. Where the database and the master key are."""

    place: str
    new_database: bool
    new_master_key: bool


def initialise(settings: Settings) -> Initialised:
    """Makes or upgrades the schema and, for a new database, makes the master key unless its file is there already.

    May be run again and by many replicas at once. MasterKeyError: the file is exposed, or not this database's key, or
    missing while the database has one. StorageUnavailable, SetupError.
    """
    database = Database(settings.database_url.get_secret_value())
    try:
        _make_sqlite_file(database)
        made_key = False
        with database.connection() as connection:
            migrate(connection)
            session = Session(bind=connection)
            new = session.get(StateRow, 1) is None
            if new:
                made_key = _first_time(session, settings)
            session.flush()
        # Told now rather than at the first start.
        load_master_key(
            database,
            settings.master_key_file,
            group_readable=settings.master_key_group_readable,
            other=settings.master_key_other_file,
        )
        return Initialised(database.place, new, made_key)
    finally:
        database.close()


def prepare_dev(settings: Settings) -> str:
    """For `serve --dev`, with settings from `dev_settings`: initialises, makes `demo` and `demo-mac`, and a token that
    may do everything. The token is `dev_token`, or one that the development folder remembers from start to start.
    """
    initialise(settings)
    if settings.dev_token is not None:
        token = settings.dev_token.get_secret_value()
    else:
        token = _remembered_token(settings.dev_folder.absolute() / "token")
    asyncio.run(_dev_contents(settings, token))
    return token


async def _dev_contents(settings: Settings, token: str) -> None:
    core = Core.open(settings)
    try:
        await core.start()
        for name, type in ((DEV_KEY, DEFAULT_TYPE), (DEV_MAC_KEY, MAC_TYPE)):
            try:
                await core.keyring.create(name, type, actor=SYSTEM)
            except KeyExists:
                continue
        await core.access.adopt(token, "development", Grant.parse("*"), actor=SYSTEM)
    finally:
        await core.stop()


def _remembered_token(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except FileNotFoundError:
        _, token = new_token()
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as made:
            made.write(token + "\n")
        return token


def _first_time(session: Session, settings: Settings) -> bool:
    """Fills an empty schema. Whether it made the master key file."""
    made = False
    if not settings.master_key_file.exists():
        try:
            make_master_key(settings.master_key_file)
            made = True
        except FileExistsError:
            pass
        except OSError:
            raise MasterKeyError(
                f"the master key file {settings.master_key_file} can't be made by this user; "
                f"run: install -d -o $USER -m 700 {settings.master_key_file.parent}"
            ) from None
    master = enrol_master_key(session, settings.master_key_file, group_readable=settings.master_key_group_readable)
    make_service_key(session, master, AUDIT_KEY)
    session.add(StateRow(id=1, revision=1, installation=uuid4().hex))
    session.flush()
    row = session.get_one(ServiceKeyRow, AUDIT_KEY)
    key = master.unwrap(row.master_key_id, row.wrapped, Purpose("service", AUDIT_KEY))
    AuditTrail(key).change(session, 1, SYSTEM, "init", "database")
    wipe(key)
    return made


def _make_sqlite_file(database: Database) -> None:
    """An empty file that its owner alone may read; SQLite gives its companions the same mode."""
    if database.file is None:
        return
    try:
        database.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(database.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        raise StorageUnavailable(
            f"the database file {database.file} can't be made by this user; "
            f"run: install -d -o $USER -m 700 {database.file.parent}"
        ) from None
