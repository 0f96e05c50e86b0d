"""Sealed streams through the service: bodies of any length, in constant memory, with back-pressure in both directions.

What a client does not read yet is spooled, always as ciphertext: sealing comes before the backlog, opening after it.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import aclosing
from typing import Any, TypeVar

import engine
from engine import chunked
from service.errors import DoesNotOpen, Malformed, SpoolUnavailable, TooLarge
from service.formats import HEADER_SIZE, STREAM_HEAD_SIZE, STREAM_LEAST_SIZE, parse_stream
from service.keyring import Key
from service.problems import Problem
from service.spool import Backlog, Spool, Store
from service.wire import Body, Disconnected, HeaderList, Send

T = TypeVar("T")
# Lengths, once they are known, and the key version, to header lines.
Headers = Callable[[int | None, int], HeaderList]
# Told before the last bytes, or before the first plaintext, leave: key version, outcome, bytes of the answer.
Record = Callable[[int, str, int], Awaitable[None]]
# The key after a refresh.
Newer = Callable[[Key], Awaitable[Key]]


class Outlet:
    """The answer. Its head goes with its first bytes; `sent` counts bytes of the body."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: HeaderList = []
        self.started = False
        self.sent = 0

    def head(self, headers: HeaderList) -> None:
        """What the answer's head will say."""
        self._head = headers

    async def send(self, data: bytes, *, last: bool = False) -> None:
        """Hand `data` to the server; waits while the client does not read."""
        if not data and not last:
            return
        if not self.started:
            self.started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": self._head})
        self.sent += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})


class Stall:
    """Ends a stream of which nothing moves for `seconds`, by calling `end`. Slow uploads are the body's own watch's."""

    def __init__(self, seconds: float, end: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._end = end
        self._timer: asyncio.TimerHandle | None = None
        self._moved_at = 0.0

    def moved(self) -> None:
        self._moved_at = self._loop.time()

    def begin(self) -> None:
        """From now on something waits for the client to read."""
        self.moved()
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        due = self._moved_at + self._seconds
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._look)
            return
        self._timer = None
        self._end()


class Pipe:
    """From the upload to the answer. `deliver` takes pieces in order; while it waits for a client that does not read,
    the upload goes on and what comes is kept in `backlog`."""

    def __init__(
        self,
        backlog: Backlog,
        deliver: Callable[[bytes], Coroutine[Any, Any, None]],
        stall: Stall,
        fail: Callable[[Exception], None],
    ) -> None:
        self._backlog = backlog
        self._deliver = deliver
        self._stall = stall
        self._fail = fail
        self._draining: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def put(self, data: bytes) -> None:
        """Deliver `data` now or later. Raises what `deliver` raised, for this piece or one before it."""
        if self._draining is None and self._failure is None:
            rest = begun(self._deliver(data))
            if rest is not None:
                self._stall.begin()
                self._draining = asyncio.create_task(self._drain(rest))
            return
        self._stall.moved()
        if self._failure is None:
            await self._backlog.put(data)
        if self._failure is not None:
            raise self._failure

    async def flush(self) -> None:
        """Wait until all is delivered."""
        if self._draining is not None:
            await asyncio.wait([self._draining])
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Stop delivering."""
        self._stall.stop()
        self._backlog.close()
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.wait([self._draining])

    def fail(self, error: Exception) -> None:
        """Have `put` and `flush` raise `error`."""
        self._failure = error
        self._backlog.abandon()

    async def _drain(self, rest: Coroutine[Any, Any, None]) -> None:
        try:
            await rest
            self._stall.moved()
            while (data := await self._backlog.get()) is not None:
                await self._deliver(data)
                self._stall.moved()
        except Exception as error:
            self.fail(error)
            # More of the upload may be waited for in the meantime.
            self._fail(error)
        finally:
            self._stall.stop()
            self._draining = None


def begun(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None] | None:
    """Run `work` until it first has to wait. What is left of it, for a task; None if nothing is.

    That it had to wait is how one learns that a client does not read: the server's `send` tells it in no other way.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return _remainder(work, awaited)


async def _remainder(work: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _resumed(work, awaited)


@types.coroutine
def _resumed(work: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    try:
        while True:
            try:
                value = yield awaited
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                awaited = work.throw(error)
            else:
                awaited = work.send(value)
    except StopIteration:
        return


class Stream:
    """One call on a stream. `break_off` drops the connection: so the client learns that its answer is not whole.

    Errors before `outlet.started` are for the client to see; after it, whoever catches one has to break off.
    """

    def __init__(
        self,
        spool: Spool,
        body: Body,
        send: Send,
        headers: Headers,
        record: Record,
        stall_seconds: float,
        break_off: Callable[[], object],
    ) -> None:
        self.outlet = Outlet(send)
        self._spool = spool
        self._body = body
        self._headers = headers
        self._record = record
        self._break_off = break_off
        self._stall = Stall(stall_seconds, lambda: self._fail(Problem("body-too-slow", "nothing moved for too long")))
        self._pipe: Pipe | None = None
        self._store: Store | None = None
        self._gone: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def seal(self, key: Key, aad: bytes, length: int | None) -> None:
        """Seal the body while it comes. `length`: of the body, if it is known. Errors as of `Key.seal`, TooLarge."""
        prefix, sealer, version = key.seal_stream(aad)
        try:
            size = None if length is None else HEADER_SIZE + chunked.sealed_size(length)
        except ValueError:
            raise TooLarge(f"a stream may seal at most {chunked.MAX_PLAINTEXT_SIZE} bytes") from None
        # Before the answer's head, which would keep the server from telling the client to go on (100).
        piece = await self._body.piece()
        self.outlet.head(self._headers(size, version))
        pipe = self._piped(self.outlet.send)
        while piece is not None:
            sealed = sealer.update(piece)
            if prefix:
                sealed, prefix = prefix + sealed, b""
            if sealed:
                await pipe.put(sealed)
            self._stall.moved()
            piece = await self._body.piece()
        await self._flush(pipe)
        last = sealer.finish()
        await self._record(version, "ok", self.outlet.sent + len(last))
        await self._end(self.outlet.send(last, last=True))

    async def seal_held(self, key: Key, aad: bytes, length: int | None) -> None:
        """As `seal`, for a path that carries no answer before the body has ended: keep it, sealed, until then.

        Errors as of `Key.seal`, TooLarge, SpoolUnavailable.
        """
        prefix, sealer, version = key.seal_stream(aad)
        store = self._store = Store(self._spool)
        if length is not None:
            store.check(length)
        await store.add(prefix)
        while (piece := await self._body.piece()) is not None:
            await store.add(sealer.update(piece))
        await store.add(sealer.finish())
        await self._record(version, "ok", store.size)
        self.outlet.head(self._headers(store.size, version))
        await self._end(self._release(store, bytes, bytes))

    async def open_by_chunk(self, key: Key, aad: bytes, length: int | None, newer: Newer) -> None:
        """Open the body while it comes, and release each chunk as soon as it has verified.

        Malformed, DoesNotOpen and errors as of `Key.open`.
        """
        key.ensure_seals()
        head, first = await self._read_head()
        piece: bytes | None = first
        key = await newer(key) if key.may_be_newer(head) else key
        opener, version = key.open_stream(head, aad)
        size = _plaintext_size(length)
        self.outlet.head(self._headers(size, version))
        begun, held = False, b""

        async def deliver(sealed: bytes) -> None:
            nonlocal begun, held
            opened = _valid(opener.update, sealed)
            if opened and not begun:
                begun = True
                await self._record(version, "begun", 0)
            if size == self.outlet.sent + len(opened):
                # An empty chunk is to follow. With these bytes the client would have all that its head promised, and
                # take a stream for whole of which the end is missing.
                held, opened = opened, b""
            await self.outlet.send(opened)

        pipe = self._piped(deliver)
        while piece is not None:
            await pipe.put(piece)
            piece = await self._body.piece()
        self._check_size()
        await self._flush(pipe)
        last = _valid(opener.finish) or held
        await self._record(version, "ok", self.outlet.sent + len(last))
        await self._end(self.outlet.send(last, last=True))

    async def open_verified(self, key: Key, aad: bytes, length: int | None, newer: Newer) -> None:
        """Keep the body until all of it has verified, then open it on its way out.

        Malformed, DoesNotOpen, TooLarge, SpoolUnavailable and errors as of `Key.open`.
        """
        store = self._store = Store(self._spool)
        if length is not None:
            store.check(length)
        key.ensure_seals()
        head, first = await self._read_head()
        piece: bytes | None = first
        key = await newer(key) if key.may_be_newer(head) else key
        verifier, version = key.verify_stream(head, aad)
        opener, _ = key.open_stream(head, aad)
        _plaintext_size(length)
        while piece is not None:
            _valid(verifier.update, piece)
            await store.add(piece)
            piece = await self._body.piece()
        self._check_size()
        _valid(verifier.finish)
        size = _plaintext_size(self._body.size)
        assert size is not None
        await self._record(version, "ok", size)
        self.outlet.head(self._headers(size, version))
        await self._end(self._release(store, opener.update, opener.finish))

    async def close(self) -> None:
        """Let go of everything, whatever state it is in."""
        self._stall.stop()
        if self._gone is not None:
            self._gone.cancel()
        if self._pipe is not None:
            await self._pipe.close()
        if self._store is not None:
            self._store.close()

    async def _release(self, store: Store, opened: Callable[[bytes], bytes], rest: Callable[[], bytes]) -> None:
        """Send what was kept, by way of `opened`; `rest` gives what it held back."""
        try:
            async with aclosing(store.pieces()) as pieces:
                async for piece in pieces:
                    await self.outlet.send(_valid(opened, piece))
                    self._stall.moved()
            last = _valid(rest)
        except DoesNotOpen:
            # It did verify; so it is not the client's fault.
            raise SpoolUnavailable("the spool's disk altered what was written") from None
        await self.outlet.send(last, last=True)

    async def _read_head(self) -> tuple[bytes, bytes]:
        """The first 64 bytes of the body, and what came with them."""
        data = b""
        while len(data) < STREAM_HEAD_SIZE:
            piece = await self._body.piece()
            if piece is None:
                parse_stream(data)
                self._check_size()
            data += piece or b""
        return data[:STREAM_HEAD_SIZE], data[STREAM_HEAD_SIZE:]

    def _check_size(self) -> None:
        if self._body.size < STREAM_LEAST_SIZE:
            raise Malformed(f"wanted a sealed stream, which is at least {STREAM_LEAST_SIZE} bytes")

    def _piped(self, deliver: Callable[[bytes], Coroutine[Any, Any, None]]) -> Pipe:
        self._pipe = Pipe(Backlog(self._spool), deliver, self._stall, self._fail)
        return self._pipe

    async def _flush(self, pipe: Pipe) -> None:
        await self._until(pipe.flush())

    async def _end(self, work: Coroutine[Any, Any, None]) -> None:
        self._stall.begin()
        await self._until(work)

    async def _until(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work`, which needs no more of the body. Disconnected if the client goes away before its end."""
        rest = begun(work)
        if rest is None:
            return
        task = asyncio.create_task(rest)
        if self._gone is None:
            self._gone = asyncio.create_task(self._body.gone())
        try:
            await asyncio.wait([task, self._gone], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            elif self._failure is not None:
                raise self._failure
            else:
                raise Disconnected
        finally:
            task.cancel()

    def _fail(self, error: Exception) -> None:
        """End it from outside the task that serves it: that one learns of it as of a client that went away, or when it
        next touches the pipe if an answer can still be given."""
        self._failure = error
        if self._pipe is not None:
            self._pipe.fail(error)
        if self.outlet.started:
            self._break_off()

    @property
    def failure(self) -> Exception | None:
        """Why the connection was dropped, if it was we who did."""
        return self._failure


def _valid(work: Callable[..., T], *arguments: bytes) -> T:
    """`work(*arguments)`, or DoesNotOpen for InvalidTag.

    The InvalidTag is not kept as a context: by its traceback it would keep the engine's views of ciphertext.
    """
    try:
        return work(*arguments)
    except engine.InvalidTag:
        pass
    raise DoesNotOpen


def _plaintext_size(length: int | None) -> int | None:
    """Bytes that a stream of `length` bytes seals. DoesNotOpen if no whole stream has that length."""
    if length is None:
        return None
    try:
        return chunked.plaintext_size(max(0, length - HEADER_SIZE))
    except ValueError:
        raise DoesNotOpen from None
