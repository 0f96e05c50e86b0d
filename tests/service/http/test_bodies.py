"""Bodies as they arrive, without a server: limits, budget, and a watch on the time they take."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from service.problems import Problem
from service.wire import Body, Disconnected, HeadWatch, Message, Watch


def receiver(*pieces: bytes | None, last: bool = True) -> Any:
    """What a server hands over: each piece, None for the client's going away, then nothing more for ever."""
    left = list(pieces)

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        piece = left.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(left) or not last}

    return receive


def body(receive: Any, watch: Watch | None = None, **headers: str) -> Body:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Body(receive, named, watch or Watch(10, 1024, 2**30))


def read(*pieces: bytes | None, limit: int = 10, **headers: str) -> bytes:
    whole = asyncio.run(body(receiver(*pieces), **headers).whole(limit))
    return whole if isinstance(whole, bytes) else b"".join(whole)


def test_whole_in_any_pieces() -> None:
    assert read(b"") == b""
    assert read(b"0123456789") == b"0123456789"
    assert read(b"", b"01", b"", b"23456789", b"") == b"0123456789"


@pytest.mark.parametrize("pieces", [(b"01234567890",), (b"0123456789", b"0"), (b"012345", b"", b"678901234", b"")])
def test_over_the_limit(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(Problem) as raised:
        read(*pieces)
    assert raised.value.status == 413


def test_a_declared_length_over_the_limit_is_not_waited_for() -> None:
    with pytest.raises(Problem) as raised:
        read(limit=10, content_length="11")
    assert raised.value.status == 413
    for wrong in ("-1", "x", "1e3", "9" * 30, "٣"):
        with pytest.raises(Problem) as raised:
            read(b"", content_length=wrong)
        assert raised.value.status == 400


def test_a_client_that_goes_away() -> None:
    for pieces in ((None,), (b"01", None)):
        with pytest.raises(Disconnected):
            read(*pieces)


def test_all_bodies_together_have_a_budget() -> None:
    async def run() -> None:
        watch = Watch(10, 1024, 100)
        first = asyncio.create_task(body(receiver(bytes(60), last=False), watch).whole(1000))
        await asyncio.sleep(0)
        assert watch.buffered == 60
        with pytest.raises(Problem) as raised:
            await body(receiver(bytes(50), b"x"), watch).whole(1000)
        assert raised.value.status == 429
        assert raised.value.all_headers()["retry-after"]
        assert watch.buffered == 60
        # What fits, and what comes at once, is served.
        assert await body(receiver(bytes(20), b"x"), watch).whole(1000) == [bytes(20), b"x"]
        assert await body(receiver(bytes(90)), watch).whole(1000) == bytes(90)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert watch.buffered == 0

    asyncio.run(run())


def test_a_stalled_body_is_ended_and_others_are_not() -> None:
    async def run() -> None:
        watch = Watch(10, 1024, 2**30)
        stalled = asyncio.create_task(body(receiver(b"x" * 20_000, last=False), watch).whole(2**20))
        await asyncio.sleep(0)
        now = asyncio.get_running_loop().time()
        watch.sweep(now + 9)
        await asyncio.sleep(0)
        assert not stalled.done()
        watch.sweep(now + 11)
        with pytest.raises(Problem) as raised:
            await stalled
        assert raised.value.status == 408
        assert raised.value.all_headers()["connection"] == "close"
        assert stalled.cancelling() == 0

    asyncio.run(run())


def test_a_cancellation_of_others_is_not_taken_for_a_slow_body() -> None:
    async def run() -> None:
        waiting = asyncio.create_task(body(receiver(last=False)).whole(10))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(run())


@pytest.mark.parametrize(
    ("headers", "abandoned"),
    [({}, False), ({"content_length": "100"}, False), ({"content_length": "70000"}, True),
     ({"transfer_encoding": "chunked"}, True)],
)  # fmt: skip
def test_which_bodies_are_too_much_to_let_pass_by(headers: dict[str, str], abandoned: bool) -> None:
    assert body(receiver(), **headers).abandoned() is abandoned


class Connection:
    def __init__(self) -> None:
        self.phase: object | None = object()
        self.ended = False

    def head_awaited(self) -> object | None:
        return self.phase

    def end_slow_head(self) -> None:
        self.ended = True


def test_heads_that_take_too_long() -> None:
    watch = HeadWatch()
    slow, busy, turning = Connection(), Connection(), Connection()
    busy.phase = None
    watch.connections = {slow, busy, turning}
    watch.sweep(0, 10)
    watch.sweep(9, 10)
    turning.phase = object()
    watch.sweep(11, 10)
    assert [connection.ended for connection in (slow, busy, turning)] == [True, False, False]
    watch.sweep(22, 10)
    assert turning.ended
    assert not busy.ended
