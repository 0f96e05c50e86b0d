"""The audit trail: complete, chained, never with content, and no service without it."""

import asyncio
import json
import multiprocessing
import os
import resource
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select, text, update

from service.access import Grant
from service.audit import AuditTrail
from service.errors import AuditUnavailable, StorageUnavailable
from service.storage import AuditRow, KeyRow, StateRow


def test_every_change_is_recorded(workers, until) -> None:
    async def scenario() -> None:
        async with workers(deletion_delay=0) as (core,):
            await core.keyring.create("orders", actor="token:abc", request_id="r-1")
            await core.keyring.rotate("orders", actor="token:abc")
            _, info = await core.access.create("billing", [Grant.parse("seal:orders")], actor="cli:root")
            await core.access.revoke(info.id, actor="cli:root")
            await core.keyring.schedule_deletion("orders", actor="token:abc")
            await core.keyring.create("other", actor="token:abc")
            await until(lambda: not core.keyring.list(prefix="orders"))
            with core.database.read() as session:
                rows = list(session.scalars(select(AuditRow).order_by(AuditRow.revision)))
            assert [row.revision for row in rows] == list(range(1, len(rows) + 1))
            told = {(row.actor, row.action, row.subject, row.version) for row in rows}
            assert told == {
                ("system", "init", "database", None),
                ("token:abc", "key.create", "key:orders", 1),
                ("token:abc", "key.rotate", "key:orders", 2),
                ("cli:root", "token.create", f"token:{info.id}", None),
                ("cli:root", "token.revoke", f"token:{info.id}", None),
                ("token:abc", "key.schedule-deletion", "key:orders", 2),
                ("token:abc", "key.create", "key:other", 1),
                ("system", "key.destroy", "key:orders", 2),
            }
            assert rows[1].request_id == "r-1"
            assert abs((rows[1].at - datetime.now(UTC)).total_seconds()) < 60
            assert core.audit.verify(core.database) == len(rows)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE audit SET actor = 'nobody' WHERE revision = 3",
        "UPDATE audit SET version = 7 WHERE revision = 3",
        'UPDATE audit SET detail = \'{"type": "x"}\' WHERE revision = 3',
        "DELETE FROM audit WHERE revision = 3",
        "DELETE FROM audit WHERE revision = 1",
        "DELETE FROM audit WHERE revision = 5",
        "UPDATE state SET revision = 4",
    ],
)
def test_altered_trails_are_found(workers, tampering: str) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            for name in ("a", "b", "c", "d"):
                await core.keyring.create(name, actor="test")
            assert core.audit.verify(core.database) == 5
            with core.database.write() as session:
                session.execute(text(tampering))
            with pytest.raises(AuditUnavailable, match=r"altered|cut short"):
                core.audit.verify(core.database)

    asyncio.run(scenario())


def test_no_change_without_its_record(workers) -> None:
    """The record fails, so the change does not happen: not in the database, not in memory."""

    async def scenario() -> None:
        async with workers() as (core,):
            await core.keyring.create("kept", actor="test")
            with core.database.write() as session:
                session.execute(text("ALTER TABLE audit RENAME TO audit_away"))
            for change in (
                core.keyring.create("new", actor="test"),
                core.keyring.rotate("kept", actor="test"),
                core.keyring.schedule_deletion("kept", actor="test"),
                core.access.create("new", [Grant.parse("*")], actor="test"),
            ):
                with pytest.raises(StorageUnavailable, match="schema"):
                    await change
            with core.database.write() as session:
                session.execute(text("ALTER TABLE audit_away RENAME TO audit"))
            await core.keyring.refresh()
            assert [(info.name, info.current_version, info.state) for info in core.keyring.list()] == [
                ("kept", 1, "active")
            ]
            assert await core.access.list() == []
            with core.database.read() as session:
                assert session.scalar(select(StateRow.revision)) == 2
                assert len(list(session.scalars(select(KeyRow)))) == 1
            assert core.audit.verify(core.database) == 2

    asyncio.run(scenario())


def test_the_chain_needs_the_key(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            with pytest.raises(AuditUnavailable):
                AuditTrail(bytes(32)).verify(core.database)
            with core.database.write() as session:
                session.execute(update(AuditRow).values(mac=bytes(32)))
            with pytest.raises(AuditUnavailable):
                core.audit.verify(core.database)

    asyncio.run(scenario())


def _call(trail: AuditTrail, **changes) -> None:
    fields = {"actor": "token:abc", "action": "seal", "key": "orders", "version": 1, "outcome": "ok"} | changes
    trail.call(**fields)


def _lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_calls_are_lines_of_json(tmp_path: Path) -> None:
    trail = AuditTrail(bytes(32), tmp_path / "calls.jsonl")
    trail.open()
    _call(trail, bytes_in=64, bytes_out=112, request_id="r-1")
    _call(trail, key="a\nb\0", version=None, outcome="not-allowed", items=3, failed=1)
    trail.close()
    first, second = _lines(tmp_path / "calls.jsonl")
    assert abs((datetime.fromisoformat(first.pop("at")) - datetime.now(UTC)).total_seconds()) < 60
    assert first == {
        "actor": "token:abc",
        "action": "seal",
        "key": "orders",
        "version": 1,
        "outcome": "ok",
        "bytes_in": 64,
        "bytes_out": 112,
        "request_id": "r-1",
    }
    assert (second["key"], second["version"], second["items"], second["failed"]) == ("a\nb\0", None, 3, 1)
    assert (tmp_path / "calls.jsonl").stat().st_mode & 0o777 == 0o600


def test_no_file_no_calls() -> None:
    trail = AuditTrail(bytes(32))
    trail.open()
    _call(trail)
    assert not trail.records_calls
    assert not trail.needs_sync


def test_a_full_disk_refuses() -> None:
    trail = AuditTrail(bytes(32), Path("/dev/full"))
    trail.open()
    for _ in range(2):
        with pytest.raises(AuditUnavailable):
            _call(trail)


def test_a_place_that_can_not_be_written_refuses(tmp_path: Path) -> None:
    with pytest.raises(AuditUnavailable):
        AuditTrail(bytes(32), tmp_path).open()
    with pytest.raises(AuditUnavailable):
        _call(AuditTrail(bytes(32), tmp_path / "no" / "folder"))


def test_a_line_cut_by_a_full_disk_spoils_itself_alone(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    trail = AuditTrail(bytes(32), file)
    trail.open()
    _call(trail)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 20, before[1]))
    try:
        for _ in range(2):
            with pytest.raises(AuditUnavailable):
                _call(trail)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    _call(trail, key="after")
    trail.close()
    whole, cut, after = file.read_text().splitlines()
    assert json.loads(whole)["key"] == "orders"
    assert json.loads(after)["key"] == "after"
    assert len(cut) == 20


def test_log_rotation(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = tmp_path / "calls.jsonl"
        trail = AuditTrail(bytes(32), file, sync=True)
        trail.open()
        _call(trail, key="one")
        await trail.sync()
        os.rename(file, tmp_path / "calls.1")
        await trail.follow_rotation()
        _call(trail, key="two")
        await trail.follow_rotation()
        _call(trail, key="three")
        await asyncio.gather(*(trail.sync() for _ in range(20)))
        trail.close()
        assert [line["key"] for line in _lines(tmp_path / "calls.1")] == ["one"]
        assert [line["key"] for line in _lines(file)] == ["two", "three"]

    asyncio.run(scenario())


def test_a_pipe_has_no_disk_to_wait_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    trail = AuditTrail(bytes(32), tmp_path / "pipe", sync=True)
    trail.open()
    assert not trail.needs_sync
    _call(trail)
    assert json.loads(os.read(reader, 4096))["key"] == "orders"
    os.close(reader)
    with pytest.raises(AuditUnavailable):
        _call(trail)
    trail.close()


def _append_many(file: Path, key: str, count: int) -> None:
    trail = AuditTrail(bytes(32), file)
    for _ in range(count):
        _call(trail, key=key * 50)
    trail.close()


def test_workers_share_the_file(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_append_many, args=(file, key, 2000)) for key in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    keys = [line["key"] for line in _lines(file)]
    assert sorted(keys) == sorted(key * 50 for key in "ab" for _ in range(2000))


def test_the_trail_is_opened_and_followed_by_a_worker(workers, tmp_path: Path) -> None:
    async def scenario() -> None:
        file = tmp_path / "calls.jsonl"
        async with workers(audit_file=file, poll_interval=0.05) as (core,):
            _call(core.audit, key="one")
            os.rename(file, tmp_path / "calls.1")
            await asyncio.sleep(0.2)
            _call(core.audit, key="two")
        assert [line["key"] for line in _lines(file)] == ["two"]
        with pytest.raises(AuditUnavailable):
            async with workers(audit_file=tmp_path):
                pass

    asyncio.run(scenario())
