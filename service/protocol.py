"""Our protocol classes for uvicorn, given to it through its public `http` setting.

They say in a problem what uvicorn says in plain text, and let connections be swept that never finish a request's head.
With httptools they also offer an exchange (`service.wire.Exchange`), by which a small answer is one write instead of
two ASGI messages. That part leans on uvicorn's internals: it is used with the versions it was tested with, and only
while `exchange_fits` finds that it answers as uvicorn itself does.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.problems import MEDIA_TYPE, Problem
from service.wire import COMMON, EXCHANGE, HEADS, head_lines, status_line

# Minor versions of uvicorn whose internals the exchange was tested with.
TESTED = ("0.54",)
# Larger bodies are handed to the transport by themselves, which costs less than copying them.
_JOIN_BELOW = 64 * 2**10


def _closing(problem: Problem) -> bytes:
    """A whole response that ends the connection."""
    content = problem.body()
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(content)),
        *COMMON,
        (b"connection", b"close"),
    ]
    return status_line(problem.status) + head_lines(headers) + b"\r\n" + content


_BAD_REQUEST = _closing(Problem("malformed", "wanted a valid HTTP/1.1 request"))
_SLOW_HEAD = _closing(Problem("body-too-slow", "the head of the request came too slowly"))


class _Swept:
    """What the sweep over connections asks of a protocol. The names are those of uvicorn's own classes."""

    cycle: Any
    headers: Any
    transport: Any
    timeout_keep_alive_task: Any

    def head_awaited(self) -> object | None:
        """Something that stays the same while one request's head is awaited; None while none is."""
        if self.cycle is None:
            return self
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            return self.cycle  # type: ignore[no-any-return]
        return None

    def end_bad_request(self) -> None:
        """Answer 400 and close; but what follows a whole request must not be answered in its place."""
        if self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        self.transport.write(_BAD_REQUEST)
        self.transport.close()

    def break_off(self) -> None:
        """Drop the connection now: the client learns that its answer is not whole, even if it does not read."""
        self.transport.abort()

    def end_slow_head(self) -> None:
        """Close; with an answer if the client had begun to ask."""
        if self.transport.is_closing():
            return
        if self.headers is not None:
            self.transport.write(_SLOW_HEAD)
        self.transport.close()


class H11(_Swept, H11Protocol):
    """uvicorn's protocol in pure Python."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        HEADS.connections = self.connections

    def send_400_response(self, msg: str) -> None:
        self.end_bad_request()


try:
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
except ImportError:
    FAST: type[asyncio.Protocol] = H11
    FUSED: type[asyncio.Protocol] | None = None
else:

    class HttpTools(_Swept, HttpToolsProtocol):
        """uvicorn's protocol over httptools."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            HEADS.connections = self.connections

        def send_400_response(self, msg: str) -> None:
            self.end_bad_request()

    class ExchangeCycle(RequestResponseCycle):
        """One request and its response, with an exchange beside the ASGI messages."""

        _dated: tuple[Any, bytes] = (None, b"")

        def take(self) -> bytes | None:
            if self.more_body or self.disconnected:
                return None
            self.waiting_for_100_continue = False
            return bytes(self.body)

        def respond(self, status: int, head: bytes, body: bytes) -> bool:
            if self.response_started or self.flow.write_paused:
                return False
            if self.disconnected:
                return True
            # The server makes a new list each second.
            made_for, lines = ExchangeCycle._dated
            if made_for is not self.default_headers:
                lines = head_lines(self.default_headers)
                ExchangeCycle._dated = (self.default_headers, lines)
            self.response_started = True
            self.waiting_for_100_continue = False
            end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
            if len(body) < _JOIN_BELOW:
                self.transport.write(b"".join((STATUS_LINE[status], lines, head, end, body)))
            else:
                self.transport.write(b"".join((STATUS_LINE[status], lines, head, end)))
                self.transport.write(body)
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()
            return True

    class FusedHttpTools(HttpTools):
        """As `HttpTools`, and each request's scope offers an exchange."""

        def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
            cycle.__class__ = ExchangeCycle
            cycle.scope["extensions"] = {EXCHANGE: cycle}  # type: ignore[dict-item]
            super()._start_asgi_task(cycle, app)

    FAST = HttpTools
    FUSED = FusedHttpTools


class _Memory(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def _probed(protocol: type[asyncio.Protocol]) -> tuple[bytes, bool, int]:
    """What `protocol` writes for two requests on one connection and a third that ends it, and how many were fused."""
    fused = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal fused
        exchange = scope.get("extensions", {}).get(EXCHANGE)
        body = exchange.take() if exchange is not None else None
        if body is None:
            body = (await receive())["body"]
        if exchange is not None and exchange.respond(200, b"content-length: %d\r\n" % len(body), body):
            fused += 1
            return
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(app, log_config=None, access_log=False, date_header=False, http=protocol)
    server = uvicorn.Server(config)
    config.load()
    transport = _Memory()
    connection: Any = protocol(config=config, server_state=server.server_state, app_state={})  # type: ignore[call-arg]
    connection.connection_made(transport)
    ask = b"POST / HTTP/1.1\r\nhost: probe\r\ncontent-length: %d\r\n%s\r\n%s"
    for body, more in ((b"one", b""), (b"", b""), (b"last", b"connection: close\r\n")):
        connection.data_received(ask % (len(body), more, body))
        for _ in range(20):
            if not server.server_state.tasks:
                break
            await asyncio.sleep(0)
    connection.connection_lost(None)
    return transport.written, transport.closed, fused


def exchange_fits() -> bool:
    """Whether this uvicorn is one we know and answers the same with the exchange as without."""
    if FUSED is None or uvicorn.__version__.rpartition(".")[0] not in TESTED:
        return False
    try:
        plain = asyncio.run(_probed(FAST))
        fused = asyncio.run(_probed(FUSED))
    except Exception:
        logging.getLogger("sealane.server").warning("the exchange failed its check; uvicorn's own way is used")
        return False
    return plain[:2] == fused[:2] and fused[2] == 3 and plain[0].count(b"HTTP/1.1 200") == 3
