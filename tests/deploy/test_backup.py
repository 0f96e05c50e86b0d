"""The drill of docs/operations.md: back up, lose all but back-up and master key, restore; old messages open."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy_harness import PROJECT, absent
from pydantic import SecretStr

sys.path.insert(0, str(PROJECT / "tests" / "service"))
from postgres_cluster import cluster, find_programs

from service.core import Core
from service.settings import Settings
from service.setup import initialise

TEXT = b"attack at dawn"


def use(settings: Settings, sealed: bytes | None) -> bytes:
    """Opens `sealed`, or makes a key and seals."""

    async def work() -> bytes:
        core = Core.open(settings)
        await core.start()
        try:
            if sealed is None:
                await core.keyring.create("orders", "xchacha20-poly1305", actor="test")
                return core.keyring.get("orders").seal(TEXT, b"aad")[0]
            assert core.audit.verify(core.database) > 0
            return core.keyring.get("orders").open(sealed, b"aad")[0]
        finally:
            await core.stop()

    return asyncio.run(work())


def test_sqlite(tmp_path: Path) -> None:
    file, key, copy = tmp_path / "live/sealane.db", tmp_path / "key/master.key", tmp_path / "copy.db"
    settings = Settings(database_url=SecretStr(f"sqlite:///{file}"), master_key_file=key)
    initialise(settings)
    sealed = use(settings, None)
    with sqlite3.connect(file) as live, sqlite3.connect(copy) as saved:
        live.backup(saved)
    for lost in file.parent.iterdir():
        lost.unlink()
    copy.rename(file)
    initialise(settings)
    assert use(settings, sealed) == TEXT


@pytest.fixture
def postgres() -> Iterator[str]:
    if find_programs() is None:
        absent("PostgreSQL's server programs are not installed")
    with cluster() as made:
        yield made.url.replace("+psycopg", "")


@pytest.mark.postgres
def test_postgresql(postgres: str, tmp_path: Path) -> None:
    programs, saved = find_programs(), tmp_path / "saved.dump"

    def run(program: str, *arguments: str | Path) -> None:
        subprocess.run([str(programs / program), *arguments], check=True, capture_output=True)

    settings = Settings(database_url=SecretStr(postgres), master_key_file=tmp_path / "master.key")
    initialise(settings)
    sealed = use(settings, None)
    run("pg_dump", "--format=custom", "--file", saved, postgres)
    run("psql", postgres, "-c", "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with pytest.raises(Exception, match="init"):
        use(settings, sealed)
    run("pg_restore", "--dbname", postgres, "--clean", "--if-exists", saved)
    initialise(settings)
    assert use(settings, sealed) == TEXT
