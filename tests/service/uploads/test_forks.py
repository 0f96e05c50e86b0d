"""Two tags under one nonce would give the one-time key away. Whatever happens, an upload yields one at most."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest
from sqlalchemy import select
from upload_harness import KEY, Pieces, append, ask, begin, execute, finish, mac_key, take, verifies

from service import uploads
from service.core import Core
from service.errors import SealaneError, StorageUnavailable, UploadCompleted, UploadGone, UploadOffset, UploadSuperseded
from service.storage import MacStreamRow


def test_of_two_who_go_on_from_one_checkpoint_one_finishes(workers) -> None:
    async def scenario() -> None:
        async with workers(2) as (one, two):
            await mac_key(one)
            await two.keyring.refresh()
            id = await begin(one)
            await append(one, id, 0, b"begun ")
            first = await take(one, id, 6)
            second = await take(two, id, 6)
            await first.read(Pieces([b"one"]))
            await second.read(Pieces([b"two"]))
            # The later claim counts; the earlier one learns of it and can go on from what there is.
            with pytest.raises(UploadSuperseded):
                await first.finish()
            first.close()
            done = await second.finish()
            second.close()
            assert verifies(one, done.result, b"begun two")
            assert (await ask(one, id)).result == done.result
            with pytest.raises(UploadCompleted):
                await take(one, id, 6)

    asyncio.run(scenario())


def test_a_replayed_append_is_refused(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await mac_key(core)
            id = await begin(core)
            await append(core, id, 0, b"a" * 10)
            with pytest.raises(UploadOffset):
                await append(core, id, 0, b"a" * 10)
            done = await finish(core, id, 10, b"b")
            for offset in (0, 10, 11):
                with pytest.raises(UploadCompleted):
                    await finish(core, id, offset, b"c")
            assert (await ask(core, id)).result == done.result

    asyncio.run(scenario())


def test_whoever_asks_stops_an_append_at_another_worker(workers) -> None:
    async def scenario() -> None:
        async with workers(2) as (one, two):
            await mac_key(one)
            await two.keyring.refresh()
            id = await begin(one)
            held = await take(one, id, 0)
            await held.read(Pieces([b"unsaved"]))
            assert (await ask(two, id)).offset == 0
            with pytest.raises(UploadSuperseded):
                await held.pause()
            held.close()
            # What was told holds.
            assert (await append(two, id, 0, b"x")).offset == 1

    asyncio.run(scenario())


def test_a_dump_that_was_restored_opens_nothing_again(workers, backend, settings) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await mac_key(core)
            id = await begin(core)
            await append(core, id, 0, b"same ")
            if backend.name == "sqlite":
                core.database.truncate_log()
                copy = f"{core.database.file}.copy"
                shutil.copy(core.database.file, copy)
            else:
                execute(core, "CREATE TABLE copied AS SELECT * FROM mac_streams")
            done = await finish(core, id, 5, b"one")
            assert done.complete
        if backend.name == "sqlite":
            _put_back(copy, core.database.file)
        async with workers() as (core,):
            if backend.name != "sqlite":
                execute(core, "ALTER TABLE mac_streams RENAME TO before")
                execute(core, "CREATE TABLE mac_streams (LIKE before INCLUDING ALL)")
                execute(core, "INSERT INTO mac_streams SELECT * FROM copied")
            for call in (finish(core, id, 5, b"two"), ask(core, id)):
                with pytest.raises(UploadGone, match="restored"):
                    await call
            # New uploads are as good as ever.
            assert verifies(core, (await finish(core, await begin(core), 0, b"new")).result, b"new")

    asyncio.run(scenario())


def _put_back(copy: str, file: Path) -> None:
    for name in ("-wal", "-shm"):
        Path(f"{file}{name}").unlink(missing_ok=True)
    os.rename(copy, file)


@pytest.mark.parametrize("column", ["position", "key_version", "key_uid", "verifies", "origin", "state", "id"])
def test_states_are_bound_to_their_place(workers, column: str) -> None:
    """Nobody who can write to the database alone can move a state to where it does not belong."""

    async def scenario() -> None:
        async with workers() as (core,):
            await mac_key(core)
            await core.keyring.rotate(KEY, actor="test")
            victim, other = await begin(core), await begin(core)
            await append(core, victim, 0, b"abc")
            await append(core, other, 0, b"xyz")
            changes = {
                "position": "position = 2", "key_version": "key_version = 1", "key_uid": "key_uid = 'x'",
                "verifies": f"verifies = {'TRUE' if not core.database.is_sqlite else '1'}", "origin": "origin = 'x'",
                "state": "state = (SELECT o.state FROM mac_streams o WHERE o.id = :other)", "id": "id = 'moved'",
            }  # fmt: skip
            execute(core, f"UPDATE mac_streams SET {changes[column]} WHERE id = :id".replace(":other", f"'{other}'"),
                    id=victim)  # fmt: skip
            id, offset = ("moved" if column == "id" else victim), (2 if column == "position" else 3)
            with pytest.raises(SealaneError) as caught:
                await finish(core, id, offset, b"")
            wanted = {"key_uid": "upload-not-found", "origin": "upload-gone"}.get(column, StorageUnavailable.slug)
            assert caught.value.slug == wanted
            assert verifies(core, (await finish(core, other, 3)).result, b"xyz")

    asyncio.run(scenario())


def test_nothing_of_the_state_lies_open(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            key = await mac_key(core)
            id = await begin(core)
            upload = await take(core, id, 0)
            await upload.read(Pieces([b"abc"]))
            state = upload._sum.export_state()
            await upload.pause()
            upload.close()
            with core.database.read() as session:
                row = session.scalars(select(MacStreamRow)).one()
            assert row.state is not None
            assert len(row.state) == 24 + len(state) + 16
            for at in range(0, len(state) - 8, 8):
                if state[at : at + 8] not in (bytes(8), key.versions[1].header):
                    assert state[at : at + 8] not in row.state

    asyncio.run(scenario())


class _Client:
    """Somebody who appends data of its own from whatever offset it is told, and may vanish at any point."""

    def __init__(self, name: bytes, core: Core, id: str) -> None:
        self.name, self.core, self.id = name, core, id
        self.upload = None
        self.known = 0

    async def step(self, chance: random.Random, tags: list[bytes]) -> None:
        try:
            if self.upload is None:
                if chance.random() < 0.4:
                    self.known = (await ask(self.core, self.id)).offset
                self.upload = await take(self.core, self.id, self.known)
                return
            what = chance.random()
            if what < 0.5:
                await self.upload.read(Pieces([self.name * chance.randrange(1, 30)]))
            elif what < 0.6:
                # Its worker is gone, and what it held in memory with it.
                self.upload.close()
                self.upload = None
            elif what < 0.75:
                await self.upload.pause()
                self.known = self.upload.offset
                self.upload.close()
                self.upload = None
            else:
                result = (await self.upload.finish()).result
                assert isinstance(result, bytes)
                tags.append(result)
                self.upload.close()
                self.upload = None
        except UploadOffset as error:
            self.known = error.offset  # type: ignore[assignment]
        except (UploadSuperseded, UploadCompleted):
            if self.upload is not None:
                self.upload.close()
                self.upload = None


@pytest.mark.parametrize("seed", range(6))
def test_in_any_order_of_events_there_is_one_tag_at_most(workers, monkeypatch, seed: int) -> None:
    # Those who are interrupted here are as slow to end as can be.
    monkeypatch.setattr(uploads, "_PATIENCE", 0.001)

    async def scenario() -> None:
        async with workers(2, upload_checkpoint_bytes=40) as cores:
            await mac_key(cores[0])
            await cores[1].keyring.refresh()
            chance = random.Random(seed)
            for _ in range(4):
                id = await begin(cores[0])
                clients = [_Client(name, cores[n % 2], id) for n, name in enumerate((b"a", b"b", b"c", b"d"))]
                tags: list[bytes] = []
                for _ in range(80):
                    await asyncio.gather(
                        *(client.step(chance, tags) for client in chance.sample(clients, chance.randrange(1, 4)))
                    )
                assert len(tags) <= 1
                for client in clients:
                    if client.upload is not None:
                        client.upload.close()
                told = await ask(cores[1], id)
                if not tags:
                    assert not told.complete
                    tags.append((await finish(cores[0], id, told.offset)).result)  # type: ignore[arg-type]
                assert (await ask(cores[0], id)).result == tags[0]

    asyncio.run(scenario())
