"""The storages that the service's tests run on: SQLite always, and PostgreSQL where SEALANE_TEST_POSTGRES_URL names a
database whose user may create others, or its server programs are installed: then a cluster is made for the tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from postgres_cluster import VARIABLE, cluster, find_programs
from pydantic import SecretStr
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from service.settings import Settings
from service.setup import initialise


class Sqlite:
    """A file, copied from one that was initialised once."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = _settings(f"sqlite:///{folder / 'sealane.db'}", folder / "master.key")
        initialise(self.settings)

    def empty_url(self, folder: Path) -> str:
        return f"sqlite:///{folder / 'sealane.db'}"

    def empty(self, folder: Path) -> Settings:
        return _settings(self.empty_url(folder), folder / "master.key")

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
        self._stack = ExitStack()
        url = os.environ.get(VARIABLE) or self._stack.enter_context(cluster()).url
        self.url = make_url(url).set(drivername="postgresql+psycopg")
        self.admin = create_engine(self.url, isolation_level="AUTOCOMMIT")
        self.made: list[str] = []
        self.settings = _settings(self._create(), folder / "master.key")
        initialise(self.settings)

    def empty_url(self, folder: Path) -> str:
        return self._create()

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
        self._stack.close()

    def _create(self, template: str = "template1") -> str:
        name = f"sealane_test_{uuid4().hex[:12]}"
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        self.made.append(name)
        return self.url.set(database=name).render_as_string(hide_password=False)

    def _run(self, statement: str) -> None:
        with self.admin.connect() as connection:
            connection.execute(text(statement))


Backend = Sqlite | Postgres
#: Where installations are made by those who are given none; empty: SQLite.
CURRENT: list[Backend] = []


@contextmanager
def current(backend: Backend) -> Iterator[None]:
    CURRENT.append(backend)
    try:
        yield
    finally:
        CURRENT.pop()


def _settings(url: str, master_key: Path) -> Settings:
    return Settings(database_url=SecretStr(url), master_key_file=master_key)


def _parameters() -> list[Any]:
    if os.environ.get(VARIABLE) or find_programs() is not None:
        return [Sqlite, pytest.param(Postgres, marks=pytest.mark.postgres)]
    if os.environ.get("CI", "").lower() in ("1", "true"):
        raise RuntimeError(f"in CI the tests run on PostgreSQL too: apt-get install postgresql, or set {VARIABLE}")
    missing = pytest.mark.skip(f"PostgreSQL's server programs are not installed, and {VARIABLE} is not set")
    return [Sqlite, pytest.param(Postgres, marks=[pytest.mark.postgres, missing])]


PARAMETERS = _parameters()
