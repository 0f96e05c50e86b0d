"""Keys across workers: created, rotated, deleted, and known to all within a second."""

import asyncio
import time
from datetime import UTC, datetime
from threading import Thread

import pytest
from sqlalchemy import select

from service.access import Grant
from service.errors import DoesNotOpen, KeyDeleted, KeyExists, KeyNotFound, Malformed, StorageUnavailable
from service.keyring import check_name
from service.storage import AuditRow, KeyRow, KeyVersionRow, StateRow


@pytest.mark.parametrize("name", ["a", "0", "orders", "a.b_c-d", "a" * 128, "9-lives"])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "a" * 129, "Orders", "-a", ".a", "_a", "a..b", "a/b", "a%2fb", "a b", "a\n", "a\0", "é", "..", "\uff41", "a*"],
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(Malformed, match="a-z 0-9"):
        check_name(name)


def test_create_describe_list(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            before = datetime.now(UTC)
            info = await core.keyring.create("orders", actor="test")
            assert (info.name, info.type, info.state, info.current_version) == (
                "orders",
                "xchacha20-poly1305",
                "active",
                1,
            )
            assert before <= info.created_at <= datetime.now(UTC)
            assert info.delete_at is None
            assert core.keyring.describe("orders") == info
            for name in ("a", "orders-1", "orders-2", "z"):
                await core.keyring.create(name, "poly1305-xchacha20", actor="test")

            def names(**how) -> list[str]:
                return [found.name for found in core.keyring.list(**how)]

            assert names() == ["a", "orders", "orders-1", "orders-2", "z"]
            assert names(prefix="orders") == ["orders", "orders-1", "orders-2"]
            assert names(prefix="orders", after="orders", limit=1) == ["orders-1"]
            assert names(after="orders-2") == ["z"]
            assert names(prefix="orders", after="z") == []
            assert names(limit=2) == ["a", "orders"]
            assert names(limit=2, visible=lambda name: name.startswith("o")) == ["orders", "orders-1"]
            assert names(prefix="b") == []
            with pytest.raises(KeyNotFound):
                core.keyring.describe("b")
            with pytest.raises(Malformed, match="key type"):
                await core.keyring.create("b", "aes", actor="test")
            with pytest.raises(Malformed):
                await core.keyring.create("B", actor="test")
            with pytest.raises(KeyExists):
                await core.keyring.create("orders", "poly1305-xchacha20", actor="test")
            assert core.keyring.describe("orders") == info

    asyncio.run(scenario())


def test_everything_survives_a_restart(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await core.keyring.create("orders", actor="test")
            old, _ = core.keyring.get("orders").seal(b"old")
            await core.keyring.rotate("orders", actor="test")
            new, version = core.keyring.get("orders").seal(b"new")
            info = core.keyring.describe("orders")
            assert version == info.current_version == 2
        async with workers() as (core,):
            assert core.keyring.describe("orders") == info
            assert core.keyring.get("orders").open(old) == (b"old", 1)
            assert core.keyring.get("orders").open(new) == (b"new", 2)

    asyncio.run(scenario())


def test_two_creates_at_once_one_wins(workers) -> None:
    async def scenario() -> None:
        async with workers(2) as cores:
            for name in (f"key-{i}" for i in range(5)):
                results = await asyncio.gather(
                    *(core.keyring.create(name, actor="test") for core in cores * 3), return_exceptions=True
                )
                assert sum(isinstance(result, KeyExists) for result in results) == 5
                assert sum(not isinstance(result, Exception) for result in results) == 1
            message, _ = (await cores[0].keyring.find("key-0")).seal(b"x")
            assert (await cores[1].keyring.find("key-0")).open(message) == (b"x", 1)

    asyncio.run(scenario())


def test_changes_reach_the_other_worker_within_a_second(workers, until) -> None:
    async def scenario() -> None:
        async with workers(2) as (one, two):
            await one.keyring.create("orders", actor="test")
            await until(lambda: _has(two, "orders"), 1)
            await one.keyring.rotate("orders", actor="test")
            await until(lambda: two.keyring.get("orders").current == 2, 1)
            await one.keyring.schedule_deletion("orders", actor="test")
            await until(lambda: two.keyring.get("orders").state == "pending-deletion", 1)
            await one.keyring.undo_deletion("orders", actor="test")
            await until(lambda: two.keyring.get("orders").state == "active", 1)

    asyncio.run(scenario())


def _has(core, name: str) -> bool:
    return any(info.name == name for info in core.keyring.list())


def test_a_miss_asks_the_storage_once_for_all_who_wait(workers, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with workers(2, poll_interval=60) as (one, two):
            await one.keyring.create("orders", actor="test")
            with pytest.raises(KeyNotFound):
                two.keyring.get("orders")
            queries = 0
            read = two.follower._read

            def counted():
                nonlocal queries
                queries += 1
                return read()

            monkeypatch.setattr(two.follower, "_read", counted)
            keys = await asyncio.gather(*(two.keyring.find("orders") for _ in range(100)))
            assert {key.name for key in keys} == {"orders"}
            assert queries == 1
            # A name that can't exist is no reason for a query.
            with pytest.raises(KeyNotFound):
                await two.keyring.find("../etc")
            assert queries == 1
            started = time.monotonic()
            for _ in range(5):
                with pytest.raises(KeyNotFound):
                    await two.keyring.find("nothing")
            # Whoever guesses names is slowed down, and so is the load on the storage.
            assert time.monotonic() - started > 0.15

    asyncio.run(scenario())


def test_one_waiter_that_goes_away_spoils_it_for_no_other(workers) -> None:
    async def scenario() -> None:
        async with workers(2, poll_interval=60) as (one, two):
            await one.keyring.create("orders", actor="test")
            first = asyncio.create_task(two.keyring.find("orders"))
            second = asyncio.create_task(two.keyring.find("orders"))
            await asyncio.sleep(0)
            first.cancel()
            assert (await second).name == "orders"
            with pytest.raises(asyncio.CancelledError):
                await first

    asyncio.run(scenario())


def test_a_message_of_a_version_made_elsewhere_a_moment_ago(workers) -> None:
    async def scenario() -> None:
        async with workers(2, poll_interval=60) as (one, two):
            await one.keyring.create("orders", actor="test")
            key = await two.keyring.find("orders")
            await one.keyring.rotate("orders", actor="test")
            message, _ = one.keyring.get("orders").seal(b"x")
            assert key.may_be_newer(message)
            key = await two.keyring.newer(key)
            assert key.open(message) == (b"x", 2)

    asyncio.run(scenario())


def test_rotations_on_two_workers_lose_none(workers) -> None:
    async def scenario() -> None:
        async with workers(2, poll_interval=60) as (one, two):
            await one.keyring.create("orders", actor="test")
            messages = []
            for core in (one, two, one, two):
                await core.keyring.rotate("orders", actor="test")
                messages.append(core.keyring.get("orders").seal(b"x")[0])
            assert [version.version for version in two.keyring.describe("orders").versions] == [1, 2, 3, 4, 5]
            # Two heard of its own last rotation alone, and has the versions between all the same.
            for version, message in enumerate(messages, 2):
                assert two.keyring.get("orders").open(message) == (b"x", version)

    asyncio.run(scenario())


def test_rotate_while_sealing(workers) -> None:
    """Threads seal without pause while the key rotates; each message opens under the version it says."""

    async def scenario() -> None:
        async with workers() as (core,):
            await core.keyring.create("orders", actor="test")
            made: list[tuple[bytes, int]] = []
            stop = False

            def seal() -> None:
                while not stop:
                    made.append(core.keyring.get("orders").seal(b"x"))
                    time.sleep(0.0005)

            threads = [Thread(target=seal) for _ in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(5):
                await core.keyring.rotate("orders", actor="test")
            stop = True
            for thread in threads:
                thread.join()
            assert len({version for _, version in made}) > 1
            for message, version in made:
                assert core.keyring.get("orders").open(message) == (b"x", version)
                assert int.from_bytes(message[4:8]) == version

    asyncio.run(scenario())


def test_deletion_waits_can_be_undone_and_then_destroys(workers, backend) -> None:
    async def scenario() -> None:
        async with workers(2, deletion_delay=0.8) as (one, two):
            await one.keyring.create("orders", actor="test")
            await one.keyring.rotate("orders", actor="test")
            await one.keyring.create("kept", actor="test")
            message, _ = one.keyring.get("orders").seal(b"x")
            with one.database.read() as session:
                wrapped = [row.wrapped for row in session.scalars(select(KeyVersionRow))]
            await two.keyring.find("orders")
            info = await one.keyring.schedule_deletion("orders", actor="test")
            assert info.state == "pending-deletion"
            assert info.delete_at is not None
            # Asking again neither prolongs nor shortens it.
            assert (await two.keyring.schedule_deletion("orders", actor="test")).delete_at == info.delete_at
            with pytest.raises(KeyDeleted):
                await one.keyring.rotate("orders", actor="test")
            with pytest.raises(KeyExists):
                await one.keyring.create("orders", actor="test")
            assert (await two.keyring.undo_deletion("orders", actor="test")).delete_at is None
            # And undoing what is not scheduled changes nothing.
            assert (await two.keyring.undo_deletion("orders", actor="test")).state == "active"
            await one.keyring.refresh()
            assert one.keyring.get("orders").open(message) == (b"x", 2)

            await one.keyring.schedule_deletion("orders", actor="test")
            await asyncio.sleep(0.8)
            with pytest.raises((KeyDeleted, KeyNotFound)):
                await two.keyring.undo_deletion("orders", actor="test")
            await asyncio.sleep(1.2)
            for core in (one, two):
                with pytest.raises(KeyNotFound):
                    core.keyring.get("orders")
                assert [found.name for found in core.keyring.list()] == ["kept"]
            for refused in (one.keyring.rotate, one.keyring.schedule_deletion, one.keyring.undo_deletion):
                with pytest.raises(KeyNotFound):
                    await refused("orders", actor="test")
            with one.database.read() as session:
                rows = list(session.scalars(select(KeyVersionRow).where(KeyVersionRow.key_name == "orders")))
                assert [row.wrapped for row in rows] == [None, None]
                assert all(row.destroyed_at is not None for row in rows)
                actions = list(session.scalars(select(AuditRow.action).order_by(AuditRow.revision)))
            assert actions.count("key.destroy") == 1
            if one.database.file is not None:
                files = [one.database.file, one.database.file.with_name("sealane.db-wal")]
                content = b"".join(file.read_bytes() for file in files if file.exists())
                assert [value in content for value in wrapped] == [row_kept(value, one) for value in wrapped]

    def row_kept(value: bytes, core) -> bool:
        with core.database.read() as session:
            return session.scalar(select(KeyVersionRow).where(KeyVersionRow.wrapped == value)) is not None

    asyncio.run(scenario())


def test_a_destroyed_name_can_be_used_again_but_no_version_twice(workers, until) -> None:
    async def scenario() -> None:
        async with workers(2, deletion_delay=0) as (one, two):
            await one.keyring.create("orders", actor="test")
            await one.keyring.rotate("orders", actor="test")
            message, _ = one.keyring.get("orders").seal(b"x")
            await two.keyring.find("orders")
            await one.keyring.schedule_deletion("orders", actor="test")
            await until(lambda: not _has(one, "orders"))
            info = await two.keyring.create("orders", "poly1305-xchacha20", actor="test")
            assert (info.type, info.current_version, len(info.versions)) == ("poly1305-xchacha20", 3, 1)
            await one.keyring.refresh()
            for core in (one, two):
                assert core.keyring.describe("orders") == info
            await one.keyring.schedule_deletion("orders", actor="test")
            await until(lambda: not _has(two, "orders"))
            assert (await one.keyring.create("orders", actor="test")).current_version == 4
            assert one.keyring.get("orders").versions.keys() == {4}
            with pytest.raises(DoesNotOpen):
                one.keyring.get("orders").open(message)
        async with workers() as (core,):
            assert core.keyring.get("orders").versions.keys() == {4}

    asyncio.run(scenario())


def test_lost_storage_serves_on_until_it_is_stale(workers, backend, settings, until) -> None:
    async def scenario() -> None:
        async with workers(max_staleness=2, poll_interval=0.1) as (core,):
            await core.keyring.create("orders", actor="test")
            token, _ = await core.access.create("test", [Grant.parse("*")], actor="test")
            message, _ = core.keyring.get("orders").seal(b"x")
            assert not core.keyring.degraded
            backend.lose(settings)
            await until(lambda: core.keyring.degraded, 1.5)
            assert core.keyring.fault
            assert core.keyring.get("orders").open(message) == (b"x", 1)
            assert core.access.authenticate(f"Bearer {token}").name == "test"
            for change in (core.keyring.create("new", actor="t"), core.keyring.rotate("orders", actor="t")):
                with pytest.raises(StorageUnavailable) as caught:
                    await change
                assert len(caught.value.detail) > 10
            with pytest.raises(StorageUnavailable):
                await core.keyring.find("new")
            await until(lambda: core.keyring.staleness_seconds > 2.1)
            for refused in (
                lambda: core.keyring.get("orders"),
                lambda: core.keyring.get("nothing"),
                core.keyring.list,
                lambda: core.access.authenticate(f"Bearer {token}"),
            ):
                with pytest.raises(StorageUnavailable, match="SEALANE_MAX_STALENESS"):
                    refused()
            backend.restore(settings)
            await until(lambda: not core.keyring.degraded, 3)
            assert core.keyring.get("orders").open(message) == (b"x", 1)
            assert core.keyring.staleness_seconds < 1
            await core.keyring.rotate("orders", actor="test")

    asyncio.run(scenario())


def test_a_database_restored_from_a_copy_counts_and_not_memory(workers, settings) -> None:
    """Its revision is lower than the one seen: all is loaded anew."""

    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            await core.keyring.create("kept", actor="test")
            with core.database.read() as session:
                revision = session.scalar(select(StateRow.revision))
            await core.keyring.create("lost", actor="test")
            with core.database.write() as session:
                session.delete(session.get_one(KeyVersionRow, ("lost", 1)))
                session.flush()
                session.delete(session.get_one(KeyRow, "lost"))
                session.get_one(StateRow, 1).revision = revision
            await core.keyring.refresh()
            core.keyring.get("kept")
            with pytest.raises(KeyNotFound):
                core.keyring.get("lost")

    asyncio.run(scenario())
