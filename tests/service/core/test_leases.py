"""The message count of chacha20-poly1305 keys: never more than 2^32 over all workers, never a query per message."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from service import leases
from service.core import Core
from service.errors import LimitReached, NeedLease, StorageUnavailable
from service.keys import Key
from service.leases import MESSAGE_LIMIT
from service.storage import KeyVersionRow


def _reserved(core: Core) -> int:
    with core.database.read() as session:
        return session.get_one(KeyVersionRow, ("orders", 1)).reserved


def _spend(core: Core, left: int) -> None:
    """As if all but `left` of the messages had been sealed already."""
    with core.database.write() as session:
        session.execute(update(KeyVersionRow).values(reserved=MESSAGE_LIMIT - left))


async def _seal_until_refused(core: Core, key: Key) -> int:
    sealed = 0
    while True:
        try:
            if key.needs_lease():
                await core.keyring.ensure_lease(key)
            key.seal(b"x")
        except LimitReached:
            return sealed
        sealed += 1


async def _make(core: Core) -> Key:
    await core.keyring.create("orders", "chacha20-poly1305", actor="test")
    return core.keyring.get("orders")


def test_only_that_type_is_counted(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            for kind in ("xchacha20-poly1305", "poly1305-xchacha20"):
                await core.keyring.create(kind, kind, actor="test")
                assert not core.keyring.get(kind).needs_lease(10**6)
                await core.keyring.ensure_lease(core.keyring.get(kind), 10**12)
            key = await _make(core)
            assert key.needs_lease()
            with pytest.raises(NeedLease):
                key.seal(b"x")
            await core.keyring.ensure_lease(key)
            assert not key.needs_lease()
            message, _ = key.seal(b"x")
            # Opening and what lies in memory cost no count.
            left = key.versions[1].lease.left
            key.open(message)
            assert key.versions[1].lease.left == left

    asyncio.run(scenario())


def test_exactly_the_limit_across_workers(workers) -> None:
    async def scenario() -> None:
        async with workers(2, poll_interval=60) as (one, two):
            key = await _make(one)
            _spend(one, 1500)
            other = await two.keyring.find("orders")
            counts = await asyncio.gather(_seal_until_refused(one, key), _seal_until_refused(two, other))
            assert sum(counts) == 1500
            assert _reserved(one) == MESSAGE_LIMIT
            # Both go on refusing, without asking each time; a new version seals again.
            for core in (one, two):
                with pytest.raises(LimitReached, match="rotate"):
                    await core.keyring.ensure_lease(core.keyring.get("orders"))
            await one.keyring.rotate("orders", actor="test")
            key = one.keyring.get("orders")
            await one.keyring.ensure_lease(key)
            assert key.seal(b"x")[1] == 2

    asyncio.run(scenario())


def test_a_batch_larger_than_what_is_left_takes_nothing(workers) -> None:
    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            key = await _make(core)
            _spend(core, 10)
            with pytest.raises(LimitReached):
                await core.keyring.ensure_lease(key, 11)
            assert _reserved(core) == MESSAGE_LIMIT - 10
            with pytest.raises(NeedLease):
                key.seal_many([(b"x", b"")] * 11)
            key.versions[1].lease.refused_at = float("-inf")
            await core.keyring.ensure_lease(key, 10)
            assert len(key.seal_many([(b"x", b"")] * 10)[0]) == 10
            assert key.needs_lease()

    asyncio.run(scenario())


def test_a_crash_loses_the_block_and_counts_nothing_twice(workers, settings) -> None:
    async def scenario() -> None:
        crashed = Core.open(settings)
        await crashed.start()
        key = await _make(crashed)
        await crashed.keyring.ensure_lease(key)
        for _ in range(10):
            key.seal(b"x")
        await crashed.follower.stop()
        block = _reserved(crashed)
        assert 10 <= block <= leases.LARGEST_BLOCK
        async with workers(poll_interval=60) as (core,):
            key = core.keyring.get("orders")
            await core.keyring.ensure_lease(key)
            key.seal(b"x")
            assert _reserved(core) == block + key.versions[1].lease.left + 1
        crashed.database.close()

    asyncio.run(scenario())


def test_a_stop_gives_back_what_was_not_used(workers) -> None:
    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            key = await _make(core)
            await core.keyring.ensure_lease(key)
            for _ in range(7):
                key.seal(b"x")
        async with workers(poll_interval=60) as (core,):
            assert _reserved(core) == 7
        with pytest.raises(NeedLease):
            key.seal(b"x")

    asyncio.run(scenario())


def test_blocks_grow_with_the_rate(workers) -> None:
    """A hundred thousand seals take a handful of queries, and what is held soon lasts for the staleness limit."""

    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            key = await _make(core)
            manager = core.keyring._leases
            queries = 0
            reserve = manager._reserve

            def counted(*arguments):
                nonlocal queries
                queries += 1
                return reserve(*arguments)

            manager._reserve = counted
            for _ in range(1000):
                if key.needs_lease(100):
                    await core.keyring.ensure_lease(key, 100)
                key.versions[1].lease.take(100)
            assert queries <= 12
            manager._last_look -= 1  # as if all of it had taken a second
            await manager.top_up()
            lease = key.versions[1].lease
            assert lease.left >= min(leases.LARGEST_BLOCK // 2, lease.rate * core.settings.max_staleness // 2)
            # Unused, it reserves nothing more.
            held = lease.left
            for _ in range(100):
                manager._last_look -= 1
                await manager.top_up()
            assert lease.left == held

    asyncio.run(scenario())


def test_threads_never_take_more_than_is_there() -> None:
    lease = leases.Lease("orders", 1)
    lease.add(10_000)

    def take(_: int) -> int:
        taken = 0
        while True:
            try:
                lease.take(3)
            except NeedLease:
                return taken
            taken += 3

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(8))) == 9999
    assert lease.give_up() == 1
    assert lease.left == 0


def test_lost_storage_uses_up_what_is_leased(workers, backend, settings) -> None:
    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            key = await _make(core)
            await core.keyring.ensure_lease(key)
            backend.lose(settings)
            held = key.versions[1].lease.left
            for _ in range(held):
                key.seal(b"x")
            assert key.needs_lease()
            with pytest.raises(StorageUnavailable):
                await core.keyring.ensure_lease(key)
            backend.restore(settings)
            await core.keyring.ensure_lease(key)
            key.seal(b"x")

    asyncio.run(scenario())
