"""Fresh storage for each test: SQLite always, and PostgreSQL too when SEALANE_TEST_POSTGRES_URL names a server
(a database on it whose user may create others)."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from service.core import Core
from service.settings import Settings
from service.setup import initialise

POSTGRES = os.environ.get("SEALANE_TEST_POSTGRES_URL")
Workers = Callable[..., AbstractAsyncContextManager[list[Core]]]


class Sqlite:
    """A file, copied from one that was initialised once."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = _settings(f"sqlite:///{folder / 'sealane.db'}", folder / "master.key")
        initialise(self.settings)

    def empty(self, folder: Path) -> Settings:
        return _settings(f"sqlite:///{folder / 'sealane.db'}", folder / "master.key")

    def fresh(self, folder: Path) -> Settings:
        for name in ("sealane.db", "master.key"):
            shutil.copy2(self.folder / name, folder / name)
        return self.empty(folder)

    def lose(self, settings: Settings) -> None:
        file = make_url(settings.database_url.get_secret_value()).database
        os.rename(str(file), f"{file}.away")

    def restore(self, settings: Settings) -> None:
        file = make_url(settings.database_url.get_secret_value()).database
        os.rename(f"{file}.away", str(file))

    def close(self) -> None:
        pass


class Postgres:
    """A database of its own, made from a template that was initialised once."""

    name = "postgres"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = make_url(str(POSTGRES)).set(drivername="postgresql+psycopg")
        self.admin = create_engine(self.url, isolation_level="AUTOCOMMIT")
        self.made: list[str] = []
        self.settings = _settings(self._create(), folder / "master.key")
        initialise(self.settings)

    def empty(self, folder: Path) -> Settings:
        return _settings(self._create(), folder / "master.key")

    def fresh(self, folder: Path) -> Settings:
        shutil.copy2(self.folder / "master.key", folder / "master.key")
        return _settings(self._create(self.made[0]), folder / "master.key")

    def lose(self, settings: Settings) -> None:
        name = make_url(settings.database_url.get_secret_value()).database
        self._run(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        self._run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    def restore(self, settings: Settings) -> None:
        name = make_url(settings.database_url.get_secret_value()).database
        self._run(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true')

    def close(self) -> None:
        for name in self.made:
            self._run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self.admin.dispose()

    def _create(self, template: str = "template1") -> str:
        name = f"sealane_test_{uuid4().hex[:12]}"
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        self.made.append(name)
        return self.url.set(database=name).render_as_string(hide_password=False)

    def _run(self, statement: str) -> None:
        with self.admin.connect() as connection:
            connection.execute(text(statement))


Backend = Sqlite | Postgres
_BACKENDS: list[Any] = [Sqlite]
if POSTGRES is not None:
    _BACKENDS.append(pytest.param(Postgres, marks=pytest.mark.postgres))


def pytest_report_header() -> str:
    return "storage: SQLite" + (
        " and PostgreSQL" if POSTGRES else "; PostgreSQL too if SEALANE_TEST_POSTGRES_URL is set"
    )


@pytest.fixture(scope="session", params=_BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    made: Backend = request.param(tmp_path_factory.mktemp("initialised"))
    yield made
    made.close()


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """`await until(condition, seconds)`: fails if that takes longer."""

    async def wait(condition: Callable[[], bool], seconds: float = 5) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    return wait


@pytest.fixture
def settings(backend: Backend, tmp_path: Path) -> Settings:
    """Of an installation that was initialised and is empty."""
    return backend.fresh(tmp_path)


@pytest.fixture
def workers(settings: Settings) -> Workers:
    """`async with workers(2) as (one, two)`: that many workers on one storage, each with its own memory."""

    @asynccontextmanager
    async def serving(count: int = 1, **changes: object) -> AsyncIterator[list[Core]]:
        cores = [Core.open(settings.model_copy(update=changes)) for _ in range(count)]
        try:
            for core in cores:
                await core.start()
            yield cores
        finally:
            for core in cores:
                await core.stop()

    return serving


def _settings(url: str, master_key: Path) -> Settings:
    return Settings(database_url=SecretStr(url), master_key_file=master_key)
