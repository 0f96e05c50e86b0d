"""Raw ASGI: reading bodies within bounds, and answering.

What is here serves calls that are dispatched ahead of FastAPI, where a layer costs more than a seal does.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final, Protocol

from service.problems import MEDIA_TYPE, Problem, malformed, too_large

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Mapping[bytes, bytes]
HeaderList = list[tuple[bytes, bytes]]

OCTETS: Final = b"application/octet-stream"
JSON: Final = b"application/json"
# What every answer says: no cache keeps it, and no browser guesses another type.
COMMON: Final[HeaderList] = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
# The extension that our own protocol class offers in the scope.
EXCHANGE: Final = "sealane.exchange"

# A body that nobody will read is still taken in within these bounds before the connection closes: closing with bytes
# unread makes the kernel reset the connection, and the client may lose the answer.
LINGER_BYTES: Final = 64 * 2**20
LINGER_SECONDS: Final = 5.0
# Up to here an unread body may pass by on a connection that stays open.
UNREAD_BYTES: Final = 64 * 2**10

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}").fullmatch
_PREFIX: Final = secrets.token_hex(8)
_COUNTER: Final = itertools.count(1)
# Sent twice, these would leave it to chance which one counts.
_ONCE: Final = frozenset(
    (
        b"authorization",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"sealane-aad",
        b"sealane-mac",
        b"upload-offset",
        b"upload-complete",
        b"upload-length",
    )
)


class Exchange(Protocol):
    """What a server may offer in `scope["extensions"]` so that a small call needs no ASGI messages."""

    def take(self) -> bytes | None:
        """The whole body if it has come already, else None; not for use after `receive`."""

    def respond(self, status: int, head: bytes, body: bytes) -> bool:
        """Answer at once with `head`, header lines that end in CRLF each, and `body`. False: use `send` instead."""


class Disconnected(Exception):
    """The client went away before its body was complete."""


def request_id(headers: Headers) -> bytes:
    """The caller's X-Request-Id if it is 1 to 64 harmless characters, else a new one."""
    given = headers.get(b"x-request-id")
    if given is not None and _REQUEST_ID(given):
        return given
    return b"%s-%08x" % (_PREFIX_BYTES, next(_COUNTER))


_PREFIX_BYTES: Final = _PREFIX.encode()


def refuse_repeated(headers: HeaderList) -> None:
    """Problem if a header that must come once at most comes twice."""
    seen = set()
    for name, _ in headers:
        if name in _ONCE:
            if name in seen:
                raise malformed(f"wanted the header {name.decode().title()} only once")
            seen.add(name)


def media_type(headers: Headers) -> bytes:
    """The media type of the body in lower case, without parameters; b"" if none is given."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def accepts_octets(headers: Headers) -> bool:
    """Whether Accept asks for octets rather than JSON (RFC 9110 section 12.5.1); without Accept it does not."""
    accept = headers.get(b"accept")
    if accept is None or accept == b"*/*":
        return False
    quality: dict[bytes, float] = {}
    for part in accept.lower().split(b","):
        name, *parameters = (piece.strip() for piece in part.split(b";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith(b"q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        quality[name] = weight
    everything = quality.get(b"*/*", 0.0)
    octets = quality.get(OCTETS, quality.get(b"application/*", everything))
    json = quality.get(JSON, quality.get(b"application/*", everything))
    return octets > json


def declared_length(headers: Headers) -> int | None:
    """The number in Content-Length; None if there is none."""
    text = headers.get(b"content-length")
    if text is None:
        return None
    if not text.isdigit() or len(text) > 18:
        raise malformed("wanted a decimal number of bytes in Content-Length")
    return int(text)


class _Progress:
    __slots__ = ("expired", "received", "since", "task", "waited")

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self.task = task
        self.since = 0.0
        self.waited = 0.0
        self.received = 0
        self.expired = False


class Watch:
    """Bodies on their way to this worker: it ends waits for those that stall or trickle, and bounds the memory that
    all of them hold. One sweep looks at all, since a timer per request would cost more than the request.

    `timeout`: seconds; `min_rate`: bytes a second; `budget`: bytes.
    """

    def __init__(self, timeout: float, min_rate: int, budget: int) -> None:
        self.timeout = timeout
        self.min_rate = min_rate
        self.budget = budget
        self.buffered = 0
        self._waiting: set[_Progress] = set()

    async def run(self) -> None:
        """Sweep until cancelled."""
        period = min(1.0, self.timeout / 4)
        while True:
            await asyncio.sleep(period)
            self.sweep(time.monotonic())

    def sweep(self, now: float) -> None:
        """End every wait that is too long, or whose body came too slowly once it was awaited for the time-out."""
        for progress in tuple(self._waiting):
            pause = now - progress.since
            waited = progress.waited + pause
            trickles = waited > self.timeout and progress.received < waited * self.min_rate
            if (pause > self.timeout or trickles) and not progress.expired and progress.task is not None:
                progress.expired = True
                progress.task.cancel()

    async def chunk(self, receive: Receive, progress: _Progress) -> Message:
        """The next message of a body. Problem 408 if it is too slow, Disconnected if the client went away."""
        progress.since = time.monotonic()
        self._waiting.add(progress)
        try:
            message = await receive()
        except asyncio.CancelledError:
            if progress.expired and progress.task is not None:
                progress.task.uncancel()
                raise Problem("body-too-slow", close=True) from None
            raise
        finally:
            self._waiting.discard(progress)
            progress.waited += time.monotonic() - progress.since
        if message["type"] == "http.disconnect":
            raise Disconnected
        progress.received += len(message.get("body", b""))
        return message


class _Connection(Protocol):
    client: object

    def head_awaited(self) -> object | None: ...
    def end_slow_head(self) -> None: ...
    def break_off(self) -> None: ...


class HeadWatch:
    """Ends connections that take too long over a request's head. uvicorn itself would wait for ever."""

    def __init__(self) -> None:
        # Set by the protocol class: the server's own set of its connections.
        self.connections: Any = set()
        self._awaited: dict[_Connection, tuple[object, float]] = {}

    async def run(self, seconds: float) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(min(1.0, seconds / 4))
            self.sweep(time.monotonic(), seconds)

    def sweep(self, now: float, seconds: float) -> None:
        """End each connection whose head was first seen awaited more than `seconds` before `now`."""
        awaited: dict[_Connection, tuple[object, float]] = {}
        for connection in tuple(self.connections):
            phase = connection.head_awaited()
            if phase is None:
                continue
            before = self._awaited.get(connection)
            since = before[1] if before is not None and before[0] is phase else now
            if now - since > seconds:
                connection.end_slow_head()
            else:
                awaited[connection] = (phase, since)
        self._awaited = awaited

    def break_off(self, scope: Scope) -> bool:
        """Drop the connection that a request came on, with whatever waits in it. False if it is not one of ours."""
        client = scope.get("client")
        for connection in tuple(self.connections) if client is not None else ():
            # The server puts the connection's own object into the scope.
            if connection.client is client:
                connection.break_off()
                return True
        return False


# One per worker process, as there is one server in it.
HEADS: Final = HeadWatch()


class Body:
    """The body of one request, read once: whole, or chunk by chunk. `size` is what has come so far."""

    __slots__ = ("_headers", "_progress", "_receive", "_watch", "complete", "size", "touched")

    def __init__(self, receive: Receive, headers: Headers, watch: Watch) -> None:
        self._receive = receive
        self._headers = headers
        self._watch = watch
        self._progress: _Progress | None = None
        self.size = 0
        self.complete = False
        self.touched = False

    async def whole(self, limit: int) -> bytes | list[bytes]:
        """All of it, in the pieces that came if there were several. Problem 413 if it has over `limit` bytes."""
        declared = declared_length(self._headers)
        if declared is not None and declared > limit:
            raise too_large(limit)
        progress = _Progress(asyncio.current_task())
        self.touched = True
        message = await self._watch.chunk(self._receive, progress)
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False) and len(body) <= limit:
            self.complete = True
            self.size = len(body)
            return body
        chunks: list[bytes] = []
        held = 0
        try:
            while True:
                if body:
                    chunks.append(body)
                self.size = progress.received
                self._watch.buffered += len(body)
                held += len(body)
                self.complete = not message.get("more_body", False)
                if self.size > limit:
                    raise too_large(limit)
                if self.complete:
                    return chunks
                if self._watch.buffered > self._watch.budget:
                    raise Problem("too-many", "too many large bodies are on their way at once; try again", close=True)
                message = await self._watch.chunk(self._receive, progress)
                body = message.get("body", b"")
        finally:
            self._watch.buffered -= held

    async def chunks(self, update: Callable[[bytes], object]) -> None:
        """Hand each piece to `update` as it comes; none is kept, so any length will do."""
        declared_length(self._headers)
        progress = _Progress(asyncio.current_task())
        self.touched = True
        while True:
            message = await self._watch.chunk(self._receive, progress)
            self.size = progress.received
            if body := message.get("body", b""):
                update(body)
            if not message.get("more_body", False):
                self.complete = True
                return

    async def piece(self) -> bytes | None:
        """The next piece as it comes, which may be empty; None after the last. For one task only."""
        if self.complete:
            return None
        if self._progress is None:
            declared_length(self._headers)
            self._progress = _Progress(asyncio.current_task())
            self.touched = True
        message = await self._watch.chunk(self._receive, self._progress)
        self.size = self._progress.received
        self.complete = not message.get("more_body", False)
        return message.get("body", b"")  # type: ignore[no-any-return]

    async def gone(self) -> None:
        """Returns when the client has gone away, or has its whole answer. For use once the body is complete."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def abandoned(self) -> bool:
        """Whether so much of the body may be on its way that the connection should not carry another request."""
        if self.complete:
            return False
        if b"transfer-encoding" in self._headers:
            return True
        length = self._headers.get(b"content-length", b"0")
        return not length.isdigit() or int(length) - self.size > UNREAD_BYTES

    async def linger(self) -> None:
        """Take in the rest within bounds, unless the client still waits to be told to send it."""
        if not self.touched and self._headers.get(b"expect", b"").lower() == b"100-continue":
            return
        left = LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0:
                    message = await self._receive()
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))


async def refuse(send: Send, body: Body | None, problem: Problem, identity: bytes) -> int:
    """Answer with `problem`, at once, even while the body still comes. Returns the size of the answer."""
    content = problem.body()
    owed = problem.all_headers()
    linger = body is not None and body.abandoned()
    if linger:
        owed["connection"] = "close"
    await send({"type": "http.response.start", "status": problem.status, "headers": [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(content)),
        (b"x-request-id", identity),
        *COMMON,
        *((name.encode(), value.encode()) for name, value in owed.items()),
    ]})  # fmt: skip
    if linger and body is not None:
        # The client has its whole answer now; the exchange ends, and the connection with it, once it has stopped.
        await send({"type": "http.response.body", "body": content, "more_body": True})
        await body.linger()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    else:
        await send({"type": "http.response.body", "body": content})
    return len(content)


def head_lines(headers: HeaderList) -> bytes:
    """`headers` as they stand on the wire, a line each that ends in CRLF."""
    return b"".join(b"%s: %s\r\n" % header for header in headers)


def status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()


class Answers:
    """Answers of 200 with one media type, for an exchange or as ASGI messages."""

    def __init__(self, content_type: bytes) -> None:
        self._fixed: HeaderList = [(b"content-type", content_type), *COMMON]
        self._lines = head_lines(self._fixed)

    def head(self, length: int, identity: bytes, version: int | None) -> bytes:
        """The header lines for a body of `length` bytes; `version`: of the key that made or opened it, if any."""
        if version is None:
            return b"%scontent-length: %d\r\nx-request-id: %s\r\n" % (self._lines, length, identity)
        return b"%scontent-length: %d\r\nx-request-id: %s\r\nsealane-key-version: %d\r\n" % (
            self._lines,
            length,
            identity,
            version,
        )

    async def send(self, send: Send, body: bytes, identity: bytes, version: int | None) -> None:
        """Answer with `body`; the rest as in `head`."""
        headers = [*self._fixed, (b"content-length", b"%d" % len(body)), (b"x-request-id", identity)]
        if version is not None:
            headers.append((b"sealane-key-version", b"%d" % version))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
