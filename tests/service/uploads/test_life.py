"""An upload from its creation to its end, on one worker and on several."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta

import pytest
from upload_harness import (
    KEY,
    BreaksOff,
    Broken,
    Pieces,
    anything,
    append,
    ask,
    begin,
    execute,
    finish,
    mac_key,
    take,
    verifies,
)

from service.errors import (
    KeyDeleted,
    Malformed,
    StorageUnavailable,
    TooMany,
    UploadCompleted,
    UploadGone,
    UploadLength,
    UploadNotFound,
    UploadOffset,
    WrongKeyType,
)
from service.formats import parse_mac
from service.storage import MacStreamRow

DATA = os.urandom(10_000)


def _row(core, id: str) -> MacStreamRow | None:
    with core.database.read() as session:
        return session.get(MacStreamRow, id)


def test_goes_on_at_another_worker(workers) -> None:
    async def scenario() -> None:
        async with workers(2) as (one, two):
            await mac_key(one)
            await two.keyring.refresh()
            id = await begin(one)
            assert (await ask(two, id)).offset == 0
            assert (await append(one, id, 0, DATA[:1], DATA[1:4000])).offset == 4000
            assert (await append(two, id, 4000, DATA[4000:4001])).offset == 4001
            told = await ask(one, id)
            assert (told.offset, told.complete, told.result) == (4001, False, None)
            done = await finish(one, id, 4001, DATA[4001:], b"")
            assert (done.offset, done.complete, done.length) == (10_000, True, 10_000)
            assert verifies(two, done.result, DATA)
            assert not verifies(two, done.result, DATA[:-1])
            # The result is told again, and nothing else is there any more.
            assert (await ask(two, id)).result == done.result
            row = _row(two, id)
            assert row is not None
            assert row.state is None
            assert row.claim is None
            with pytest.raises(UploadCompleted):
                await take(two, id, 10_000)

    asyncio.run(scenario())


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17])
def test_any_length(workers, size: int) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await mac_key(core)
            id = await begin(core)
            for at in range(size):
                await append(core, id, at, DATA[at : at + 1])
            assert verifies(core, (await finish(core, id, size)).result, DATA[:size])

    asyncio.run(scenario())


def test_what_came_before_a_connection_broke_is_kept(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await mac_key(core)
            id = await begin(core)
            upload = await take(core, id, 0)
            with pytest.raises(Broken):
                await upload.read(BreaksOff([DATA[:777]]))
            upload.close()
            assert (await ask(core, id)).offset == 777
            assert verifies(core, (await finish(core, id, 777, DATA[777:])).result, DATA)

    asyncio.run(scenario())


def test_verifies_a_mac(workers) -> None:
    async def scenario() -> None:
        async with workers(2) as (one, two):
            key = await mac_key(one)
            await two.keyring.refresh()
            mac = key.mac_start()
            mac.update(DATA)
            right = mac.finish()
            wrong = right[:-1] + bytes([right[-1] ^ 1])
            unknown = right[:7] + b"\x09" + right[8:]
            for given, valid in ((right, True), (wrong, False), (unknown, False)):
                id = await begin(one, mac=given)
                await append(two, id, 0, DATA[:5000])
                done = await finish(one, id, 5000, DATA[5000:])
                assert done.result is valid
                assert (await ask(two, id)).result is valid
            with pytest.raises(Malformed):
                await begin(one, mac=right[:-1])

    asyncio.run(scenario())


def test_offsets_and_lengths(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await mac_key(core)
            id = await begin(core, length=100)
            await append(core, id, 0, DATA[:60])
            for wrong in (0, 59, 61, 100):
                with pytest.raises(UploadOffset) as caught:
                    await take(core, id, wrong)
                assert caught.value.offset == 60
            for length in (59, 99, 101):
                with pytest.raises(UploadLength):
                    await take(core, id, 60, length)
            # Too short: refused, and more may come.
            with pytest.raises(UploadLength):
                await finish(core, id, 60, DATA[60:99])
            assert (await ask(core, id)).offset == 99
            # Too long: that can't be made good.
            with pytest.raises(UploadLength):
                await append(core, id, 99, DATA[99:101])
            with pytest.raises(UploadNotFound):
                await ask(core, id)
            assert _row(core, id) is None

    asyncio.run(scenario())


def test_only_for_those_who_may(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await mac_key(core)
            id = await begin(core)
            asked = []

            def nobody(action: str, key_name: str) -> bool:
                asked.append((action, key_name))
                return False

            for call in (
                core.uploads.ask(id, nobody), core.uploads.abandon(id, nobody), core.uploads.claim(id, 0, None, nobody)
            ):  # fmt: skip
                with pytest.raises(UploadNotFound):
                    await call
            assert asked == [("mac", KEY)] * 3
            with pytest.raises(UploadNotFound):
                await ask(core, "a" * 26)
            assert (await core.uploads.abandon(id, anything)).offset == 0
            with pytest.raises(UploadNotFound):
                await ask(core, id)
            await core.keyring.create("seals", actor="test")
            with pytest.raises(WrongKeyType):
                await core.uploads.create(core.keyring.get("seals"))

    asyncio.run(scenario())


def test_rotated_deleted_and_destroyed_keys(workers) -> None:
    async def scenario() -> None:
        async with workers(2, poll_interval=0.1) as (one, two):
            await mac_key(one)
            id = await begin(one)
            await append(one, id, 0, DATA[:10])
            await one.keyring.rotate(KEY, actor="test")
            # An upload stays under its version, also at a worker that heard of neither.
            done = await finish(two, id, 10, DATA[10:20])
            assert isinstance(done.result, bytes)
            assert parse_mac(done.result).version == done.key_version == 1
            assert verifies(one, done.result, DATA[:20])

            id = await begin(one)
            held = await take(one, id, 0)
            await held.read(Pieces([DATA[:10]]))
            await one.keyring.schedule_deletion(KEY, actor="test")
            with pytest.raises(KeyDeleted):
                await held.finish()
            held.close()
            with pytest.raises(KeyDeleted):
                await take(one, id, 10)
            await one.keyring.undo_deletion(KEY, actor="test")
            assert (await finish(one, id, 10)).key_version == 2

            open_one = await begin(one)
            one.keyring._deletion_delay = timedelta(0)
            await one.keyring.schedule_deletion(KEY, actor="test")
            for _ in range(600):
                if _row(one, open_one) is None:
                    break
                await asyncio.sleep(0.1)
            assert _row(one, open_one) is None
            assert _row(one, id) is None

    asyncio.run(scenario())


def test_expires(workers) -> None:
    async def scenario() -> None:
        async with workers(upload_lifetime=1, poll_interval=0.05) as (core,):
            await mac_key(core)
            id = await begin(core)
            await append(core, id, 0, b"x")
            await asyncio.sleep(1.1)
            for call in (take(core, id, 1), ask(core, id)):
                with pytest.raises(UploadGone, match="expired"):
                    await call
            core.uploads._swept = float("-inf")
            for _ in range(100):
                if _row(core, id) is None:
                    break
                await asyncio.sleep(0.05)
            assert _row(core, id) is None

    asyncio.run(scenario())


def test_a_moved_expiry_does_not_count(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await mac_key(core)
            id = await begin(core)
            execute(core, "UPDATE mac_streams SET expires_at = '2999-01-01 00:00:00+00:00'")
            with pytest.raises(StorageUnavailable, match="altered"):
                await take(core, id, 0)

    asyncio.run(scenario())


def test_so_many_at_once(workers) -> None:
    async def scenario() -> None:
        async with workers(max_uploads=2) as (core,):
            await mac_key(core)
            first = await begin(core)
            await begin(core)
            with pytest.raises(TooMany):
                await begin(core)
            await finish(core, first, 0)
            await begin(core)

    asyncio.run(scenario())


def test_lost_storage_in_the_middle(workers, backend, settings) -> None:
    async def scenario() -> None:
        async with workers(upload_checkpoint_bytes=1000) as (core,):
            await mac_key(core)
            id = await begin(core)
            upload = await take(core, id, 0)
            await upload.read(Pieces([DATA[:2500]]))
            backend.lose(settings)
            with pytest.raises(StorageUnavailable):
                await upload.read(Pieces([DATA[2500 + at : 2600 + at] for at in range(0, 7500, 100)]))
            upload.close()
            with pytest.raises(StorageUnavailable):
                await ask(core, id)
            backend.restore(settings)
            offset = (await ask(core, id)).offset
            assert 0 <= offset <= 2500
            assert verifies(core, (await finish(core, id, offset, DATA[offset:])).result, DATA)

    asyncio.run(scenario())


def test_checkpoints_come_in_time_and_do_not_fall_far_behind(workers, monkeypatch) -> None:
    """With a storage that takes its time, the client is slowed down rather than left unsaved."""

    async def scenario() -> None:
        async with workers(upload_checkpoint_bytes=1000) as (core,):
            await mac_key(core)
            id = await begin(core)
            upload = await take(core, id, 0)
            stored = [0]
            write = core.uploads.checkpoints.rows.write

            def slow(row, position, new, state, last):
                import time

                time.sleep(0.02)
                assert position == stored[-1]
                written = write(row, position, new, state, last)
                stored.append(new)
                return written

            monkeypatch.setattr(core.uploads.checkpoints.rows, "write", slow)
            most = 0
            for at in range(0, 60_000, 100):
                await upload.read(Pieces([bytes(100)]))
                most = max(most, upload.offset - stored[-1])
                if at % 1000 == 0:
                    await asyncio.sleep(0.001)
            assert 1000 <= most <= 8 * 1000 + 100
            assert len(stored) >= 60_000 // 8100
            assert verifies(core, (await upload.finish()).result, bytes(60_000))
            upload.close()

    asyncio.run(scenario())


def test_a_slow_client_is_stored_by_the_clock(workers) -> None:
    async def scenario() -> None:
        async with workers(upload_checkpoint_seconds=0.05) as (core,):
            await mac_key(core)
            id = await begin(core)
            upload = await take(core, id, 0)
            for _ in range(5):
                await upload.read(Pieces([b"x"]))
                await asyncio.sleep(0.06)
            row = _row(core, id)
            assert row is not None
            assert row.position >= 2
            upload.close()

    asyncio.run(scenario())
