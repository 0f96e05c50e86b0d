"""`init`, development, and the schema."""

import asyncio
import multiprocessing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import select, text

from service.core import Core
from service.errors import MasterKeyError, SetupError, StorageUnavailable
from service.settings import Settings, dev_settings
from service.setup import initialise, prepare_dev
from service.storage import AuditRow, Database, MasterKeyRow
from service.storage.models import Base
from service.storage.schema import check_schema


def test_init_makes_everything_once(backend, tmp_path: Path) -> None:
    settings = backend.empty(tmp_path)
    first = initialise(settings)
    assert (first.new_database, first.new_master_key) == (True, True)
    key = settings.master_key_file.read_bytes()
    again = initialise(settings)
    assert (again.new_database, again.new_master_key) == (False, False)
    assert settings.master_key_file.read_bytes() == key
    core = Core.open(settings)
    assert core.audit.verify(core.database) == 1
    if core.database.file is not None:
        assert core.database.file.stat().st_mode & 0o777 == 0o600
    core.database.close()


def test_init_takes_a_master_key_that_is_there(backend, tmp_path: Path) -> None:
    settings = backend.empty(tmp_path)
    settings.master_key_file.write_bytes(b"k" * 32)
    settings.master_key_file.chmod(0o644)
    with pytest.raises(MasterKeyError, match="chmod"):
        initialise(settings)
    # Nothing half done: the database is as empty as before.
    with pytest.raises(SetupError, match="sealane init"):
        Core.open(settings)
    settings.master_key_file.chmod(0o400)
    assert not initialise(settings).new_master_key
    Core.open(settings).database.close()


def _initialise(settings: Settings) -> None:
    initialise(settings)


def test_replicas_may_init_at_once(backend, tmp_path: Path) -> None:
    settings = backend.empty(tmp_path)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_initialise, args=(settings,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    core = Core.open(settings)
    with core.database.read() as session:
        assert len(list(session.scalars(select(MasterKeyRow)))) == 1
        assert len(list(session.scalars(select(AuditRow)))) == 1
    core.database.close()


def test_migrations_make_what_the_models_say(settings) -> None:
    database = Database(settings.database_url.get_secret_value())
    with database.connection() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    database.close()


def test_schemas_of_other_releases_are_told_apart(backend, settings, tmp_path: Path) -> None:
    database = Database(settings.database_url.get_secret_value())
    check_schema(database)
    for found, told in (("9999", "newer release"), (None, "no schema")):
        with database.write() as session:
            session.execute(text("DELETE FROM alembic_version"))
            if found:
                session.execute(text(f"INSERT INTO alembic_version VALUES ('{found}')"))
        with pytest.raises(SetupError, match=told):
            check_schema(database)
    database.close()


def test_a_database_that_was_never_made(tmp_path: Path) -> None:
    settings = Settings(
        database_url=SecretStr(f"sqlite:///{tmp_path / 'sealane.db'}"), master_key_file=tmp_path / "master.key"
    )
    with pytest.raises(StorageUnavailable, match="sealane init"):
        Core.open(settings)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(
        database_url=SecretStr(f"sqlite:///{tmp_path / 'file' / 'sealane.db'}"), master_key_file=tmp_path / "master.key"
    )
    with pytest.raises(StorageUnavailable, match="install -d"):
        initialise(settings)
    settings = Settings(
        database_url=SecretStr(f"sqlite:///{tmp_path / 'sealane.db'}"), master_key_file=tmp_path / "file" / "master.key"
    )
    with pytest.raises(MasterKeyError, match="install -d"):
        initialise(settings)


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://host/database", "sqlite://", "sqlite:///:memory:", "hunter2", "sqlite:"]
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(SetupError, match="SEALANE_DATABASE_URL") as caught:
        Database(url)
    assert "hunter2" not in caught.value.detail


def test_an_unreachable_server_is_said_to_be_unreachable(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    database = Database("postgresql://sealane:hunter2@127.0.0.1:1/sealane")
    with pytest.raises(StorageUnavailable, match="can't be reached") as caught, database.read():
        pass
    assert "hunter2" not in caught.value.detail + database.place


def test_development(tmp_path: Path) -> None:
    settings = dev_settings(Settings(dev_folder=tmp_path / "dev"))
    token = prepare_dev(settings)
    assert token.startswith("sealane_")
    # The same from start to start, so that pasted lines go on working.
    assert prepare_dev(settings) == token
    chosen = dev_settings(Settings(dev_folder=tmp_path / "dev", dev_token=SecretStr("my-token")))
    assert prepare_dev(chosen) == "my-token"
    assert prepare_dev(chosen) == "my-token"

    async def scenario() -> None:
        core = Core.open(settings)
        await core.start()
        try:
            for known in (token, "my-token"):
                principal = core.access.authenticate(f"Bearer {known}")
                assert principal.allows("seal", "demo")
                assert principal.allows("tokens")
            assert [(info.name, info.type) for info in core.keyring.list()] == [
                ("demo", "xchacha20-poly1305"),
                ("demo-mac", "poly1305-xchacha20"),
            ]
        finally:
            await core.stop()

    asyncio.run(scenario())
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "dev").iterdir()} == {0}
