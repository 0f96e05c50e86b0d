"""The spool: order, bounds over all workers, and nothing left behind."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stream_harness import MIB, pieces, run, settled

from service import spool as module
from service.errors import SpoolUnavailable, TooLarge
from service.spool import Backlog, Spool, Store


async def add(store: Store, mebibytes: int) -> None:
    for _ in range(mebibytes):
        await store.add(bytes(MIB))


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()} - {"lock", "reserved"}


@pytest.mark.parametrize("seed", range(4))
def test_a_backlog_keeps_order_in_a_bounded_file(tmp_path: Path, seed: int) -> None:
    async def work(spool: Spool) -> None:
        data = random.Random(seed).randbytes(20 * MIB)
        backlog = Backlog(spool)

        async def put() -> None:
            for piece in pieces(data, seed, 700_000):
                await backlog.put(piece)

        putting = asyncio.create_task(put())
        read, chance = bytearray(), random.Random(seed)
        while not putting.done() or len(read) < len(data):
            for _ in range(chance.randrange(12)):
                if (piece := await backlog.get()) is not None:
                    read += piece
            await asyncio.sleep(chance.choice((0, 0, 0.01)))
        assert read == data
        assert await backlog.get() is None
        assert backlog.spooled > 0
        assert spool.reserved <= 4 * MIB + MIB
        assert not files(tmp_path), "a spooled file has a name"
        backlog.close()

    run(tmp_path, work, stream_bytes=4 * MIB)


def test_a_full_backlog_waits_for_its_reader(tmp_path: Path) -> None:
    async def work(spool: Spool) -> None:
        backlog = Backlog(spool)
        put = 0

        async def fill() -> None:
            nonlocal put
            for _ in range(100):
                await backlog.put(bytes(100_000))
                put += 100_000

        filling = asyncio.create_task(fill())
        held = await settled(lambda: put)
        assert 4 * MIB - MIB <= held <= 4 * MIB + 2 * MIB
        assert await backlog.get()
        read = 0
        while not filling.done() or read < 100:
            read += 1
            if await backlog.get() is None:
                await asyncio.sleep(0.001)
        assert put == 10_000_000
        backlog.close()

    run(tmp_path, work, stream_bytes=4 * MIB)


@pytest.mark.parametrize("size", [0, 1, 500_000, 5 * MIB + 17])
def test_a_store_gives_back_what_it_got(tmp_path: Path, size: int) -> None:
    async def work(spool: Spool) -> None:
        data = os.urandom(size)
        store = Store(spool)
        for piece in pieces(data, size):
            await store.add(piece)
        assert b"".join([piece async for piece in store.pieces()]) == data
        assert (spool.reserved > 0) is (size > MIB)
        store.close()

    run(tmp_path, work)


def test_a_store_is_bounded(tmp_path: Path) -> None:
    async def work(spool: Spool) -> None:
        store = Store(spool)
        with pytest.raises(TooLarge):
            await add(store, 100)
        assert store.size <= 6 * MIB
        store.close()

    run(tmp_path, work, stream_bytes=5 * MIB)


def test_all_workers_together_are_bounded(tmp_path: Path) -> None:
    async def work(spool: Spool) -> None:
        other = Spool(tmp_path / "spool", 64 * MIB, 8 * MIB)
        other.open()
        held = Store(other)
        await add(held, 5)
        refused = Store(spool)
        with pytest.raises(SpoolUnavailable):
            await add(refused, 6)
        refused.close()
        held.close()
        other.close()
        # What it held is to be had again.
        store = Store(spool)
        await add(store, 6)
        assert len([piece async for piece in store.pieces()]) > 1
        store.close()

    run(tmp_path, work, total_bytes=8 * MIB)


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: int) -> None:
    def fails(*_: object) -> int:
        raise OSError(failure, "")

    async def work(spool: Spool) -> None:
        store = Store(spool)
        with pytest.raises(SpoolUnavailable, match="full" if failure == errno.ENOSPC else "fails"):
            await add(store, 4)
        store.close()
        # A backlog goes on with what its reader makes room for.
        backlog = Backlog(spool)
        putting = asyncio.create_task(backlog.put(bytes(3 * MIB)))
        await asyncio.sleep(0.05)
        assert not putting.done()
        read = 0
        while read < 3 * MIB:
            piece = await backlog.get()
            read += len(piece or b"")
            await asyncio.sleep(0)
        await putting
        backlog.close()

    monkeypatch.setattr(module.os, "pwrite", _only_large(module.os.pwrite, fails))
    run(tmp_path, work)


def _only_large(real: object, fails: object) -> object:
    # What a worker says about itself is 8 bytes.
    return lambda descriptor, data, at: (fails if len(data) > 8 else real)(descriptor, data, at)  # type: ignore[operator]


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("no folder")

    async def work(spool: Spool) -> None:
        store = Store(spool)
        await store.add(bytes(100))  # small streams need no disk
        assert [piece async for piece in store.pieces()] == [bytes(100)]
        with pytest.raises(SpoolUnavailable):
            await add(store, 4)
        store.close()

    run(tmp_path, work)


def test_where_files_need_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def without(path: object, flags: int, *more: object) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "")
        return real(path, flags, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(module.os, "open", without)
    test_a_store_gives_back_what_it_got(tmp_path, 5 * MIB)
    assert not files(tmp_path)


_WORKER = """
import asyncio, sys
from pathlib import Path
from service.spool import Spool, Store
async def main():
    spool = Spool(Path(sys.argv[1]), 64 * 2**20, 64 * 2**20)
    spool.open()
    store = Store(spool)
    for _ in range(4):
        await store.add(bytes(2**20))
    _ = [piece async for piece in store.pieces()]
    print("ready", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def test_what_a_killed_worker_held_is_free_and_its_folder_goes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WORKER, str(tmp_path / "spool")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        survivor = Spool(tmp_path / "spool", 64 * MIB, 64 * MIB)
        survivor.open()
        folders = set((tmp_path / "spool").glob("worker-*"))
        assert len(folders) == 2, "the living are left alone"
        with pytest.raises(SpoolUnavailable):
            survivor.reserve(63 * MIB)
        process.send_signal(signal.SIGKILL)
        process.wait()
    began = time.monotonic()
    survivor.release(survivor.reserve(64 * MIB))
    assert time.monotonic() - began < 30
    assert len(set((tmp_path / "spool").glob("worker-*"))) == 1
    survivor.close()
    Spool(tmp_path / "spool", 64 * MIB, 64 * MIB).close()
    assert not set((tmp_path / "spool").glob("worker-*"))


def test_the_folder_is_private(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 64 * MIB, 64 * MIB)
    spool.open()
    for path in (tmp_path / "spool", *(tmp_path / "spool").rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    spool.close()
