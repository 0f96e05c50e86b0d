"""Storage that is read-only, full, locked, damaged or gone: said clearly, and nothing half done."""

import asyncio
import sqlite3
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import event, text

from service.access import Grant
from service.core import Core
from service.errors import StorageUnavailable


async def _refused(core: Core, told: str) -> None:
    """Every kind of change is refused with that meaning; what was there before is there after."""
    before = core.keyring.list(limit=1000), await core.access.list()
    for change in (
        core.keyring.create("new", actor="test"),
        core.keyring.rotate("orders", actor="test"),
        core.keyring.schedule_deletion("orders", actor="test"),
        core.access.create("new", [Grant.parse("*")], actor="test"),
    ):
        with pytest.raises(StorageUnavailable, match=told):
            await change
    await core.keyring.refresh()
    assert (core.keyring.list(limit=1000), await core.access.list()) == before
    # And sealing went on all the while.
    key = core.keyring.get("orders")
    assert key.open(key.seal(b"x")[0]) == (b"x", 1)


def _per_connection(core: Core, pragma: str) -> None:
    engine = core.database._engine
    engine.dispose()
    event.listen(engine, "connect", lambda connection, _: connection.execute(f"PRAGMA {pragma}").fetchall())


def test_read_only(workers, backend) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await core.keyring.create("orders", actor="test")
            if backend.name == "sqlite":
                _per_connection(core, "query_only=ON")
            else:
                with core.database.write() as session:
                    name = session.scalar(text("SELECT current_database()"))
                    session.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
                core.database._engine.dispose()
            await _refused(core, "read-only")

    asyncio.run(scenario())


async def _create_many(core: Core) -> None:
    have = len(core.keyring.list(limit=1000))
    for number in range(have, have + 200):
        await core.keyring.create(f"key-{number}", actor="test")


def test_full(workers, backend) -> None:
    if backend.name != "sqlite":
        pytest.skip("a disk of PostgreSQL's own can't be filled from here")

    async def scenario() -> None:
        async with workers() as (core,):
            await core.keyring.create("orders", actor="test")
            with core.database.read() as session:
                pages = session.scalar(text("PRAGMA page_count"))
            # SQLite's own limit on the file raises the very error of a full disk.
            _per_connection(core, f"max_page_count={pages}")
            for _ in range(2):
                with pytest.raises(StorageUnavailable, match="full"):
                    await _create_many(core)
            names = [info.name for info in core.keyring.list(limit=1000)]
            await core.keyring.refresh()
            assert [info.name for info in core.keyring.list(limit=1000)] == names
            key = core.keyring.get("orders")
            assert key.open(key.seal(b"x")[0]) == (b"x", 1)
            assert core.audit.verify(core.database) == len(names) + 1

    asyncio.run(scenario())


def test_locked(workers, backend, settings) -> None:
    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            await core.keyring.create("orders", actor="test")
            if backend.name == "sqlite":
                _per_connection(core, "busy_timeout=100")
                other = sqlite3.connect(core.database.file, isolation_level=None)
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StorageUnavailable, match="locked"):
                    await core.keyring.rotate("orders", actor="test")
                other.execute("ROLLBACK")
                other.close()
            else:
                other = Core.open(settings)
                with other.database.change():
                    core_settings = "SET lock_timeout = 100"
                    event.listen(
                        core.database._engine, "begin", lambda connection: connection.exec_driver_sql(core_settings)
                    )
                    with pytest.raises(StorageUnavailable, match="in time"):
                        await core.keyring.rotate("orders", actor="test")
                other.database.close()
            # Readers never wait for a writer, and the next writer gets its turn.
            assert (await core.keyring.rotate("orders", actor="test")).current_version == 2

    asyncio.run(scenario())


def test_gone_in_the_middle_of_work(workers, backend, settings) -> None:
    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            await core.keyring.create("orders", actor="test")
            backend.lose(settings)
            for change in (core.keyring.create("new", actor="test"), core.keyring.refresh(), core.access.list()):
                with pytest.raises(StorageUnavailable, match=r"gone|lost|reached|refused|shutting") as caught:
                    await change
                assert "sqlite" not in caught.value.detail.lower()
            backend.restore(settings)
            await core.keyring.create("new", actor="test")
            assert [info.name for info in core.keyring.list()] == ["new", "orders"]

    asyncio.run(scenario())


def test_a_file_that_took_the_place_of_the_database_is_what_counts(workers, backend) -> None:
    if backend.name != "sqlite":
        pytest.skip("only a file can be exchanged")

    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            file = core.database.file
            copy = file.read_bytes()
            await core.keyring.create("orders", actor="test")
            core.database._engine.dispose()
            file.unlink()
            file.write_bytes(copy)
            await core.keyring.create("other", actor="test")
            await core.keyring.refresh()
            async with workers(poll_interval=60) as (fresh,):
                assert [info.name for info in fresh.keyring.list()] == ["other"]

    asyncio.run(scenario())


def test_damaged(workers, backend, tmp_path: Path) -> None:
    if backend.name != "sqlite":
        pytest.skip("a file can be damaged from here")

    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            core.database._engine.dispose()
            core.database.file.write_bytes(b"not a database, not at all" * 400)
            with pytest.raises(StorageUnavailable, match=r"not a database|damaged"):
                await core.keyring.create("orders", actor="test")

    asyncio.run(scenario())


def test_errors_tell_nothing_of_what_was_stored(workers) -> None:
    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            with core.database.write() as session:
                session.execute(text("ALTER TABLE tokens RENAME TO tokens_away"))
            with pytest.raises(StorageUnavailable) as caught:
                await core.access.create("very-secret-name", [Grant.parse("*")], actor="test")
            error: BaseException | None = caught.value
            while error is not None:
                assert error.__suppress_context__ or error.__context__ is None
                assert "very-secret-name" not in str(error)
                error = error.__cause__

    asyncio.run(scenario())


def test_a_database_that_hangs_holds_up_nobody_but_those_who_need_it(workers) -> None:
    """Its threads are its own, so that sealing in threads, and other work there, goes on."""

    async def scenario() -> None:
        async with workers(poll_interval=0.05, max_staleness=5) as (core,):
            await core.keyring.create("orders", actor="test")
            rounds: list[bool] = []

            async def report() -> None:
                rounds.append(core.keyring.degraded)

            core.follower.add_chore(report, always=True)
            release = Event()
            hung = [asyncio.create_task(core.database.call(release.wait)) for _ in range(20)]
            await asyncio.sleep(0.3)
            key = core.keyring.get("orders")
            message, _ = await asyncio.wait_for(asyncio.to_thread(key.seal, b"x"), 1)
            assert key.open(message) == (b"x", 1)
            create = asyncio.create_task(core.keyring.create("new", actor="test"))
            await asyncio.sleep(2.5)
            assert core.keyring.degraded
            # Whoever reports it hears of it, though the storage never answered.
            assert rounds[-1]
            assert core.keyring.fault == "the database does not answer"
            assert not create.done()
            release.set()
            await asyncio.gather(*hung)
            assert (await create).name == "new"

    asyncio.run(scenario())
