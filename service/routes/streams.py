"""Sealed streams: octets of any length both ways.

ASGI endpoints like those of messages, since FastAPI would neither stream a body in nor bound it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar, Final
from urllib.parse import parse_qsl

from service.access import Principal
from service.errors import KeyNotFound, NotAllowed, NotAuthenticated, SealaneError
from service.keyring import Key
from service.logs import where
from service.problems import Problem, from_error, malformed, unsupported_media_type
from service.routes.calls import aad_of
from service.runtime import Runtime
from service.streaming import Stream
from service.telemetry import CLIENT_CLOSED, OK, OUTCOME
from service.wire import (
    COMMON,
    EXCHANGE,
    HEADS,
    OCTETS,
    Body,
    Disconnected,
    HeaderList,
    Headers,
    Receive,
    Scope,
    Send,
    declared_length,
    media_type,
    refuse,
    refuse_repeated,
    request_id,
)

# How long a connection that was dropped may take until the server says so.
_DROP_SECONDS: Final = 1.0


class BrokenOff(Exception):
    """Tells a server that is not ours to end the connection: the answer can't be completed."""


class StreamCall(ABC):
    """One of the two calls on sealed streams."""

    #: Its counters, its name in the audit trail, and the last part of its path.
    operation: ClassVar[str]
    #: What a token must be allowed to do with the key.
    action: ClassVar[str]
    # Streams of all calls of this worker.
    _on_their_way: ClassVar[set[Stream]] = set()

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._settings = runtime.settings

    @abstractmethod
    async def serve(self, scope: Scope, headers: Headers, key: Key, length: int | None, stream: Stream) -> None:
        """Take in the body of `length` bytes, if that is known, and answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        (scope.get("extensions") or {}).pop(EXCHANGE, None)
        pairs = scope["headers"]
        headers: Headers = dict(pairs)
        identity = request_id(headers)
        counters = self._runtime.metrics.call(self.operation, "raw")
        started = counters.start()
        body = Body(receive, headers, self._runtime.watch)
        call = _Call(self, identity, body)

        def head(length: int | None, version: int) -> HeaderList:
            call.version = version
            return _head(length, version, identity)

        stream = Stream(
            self._runtime.spool, body, send, head, call.record, self._settings.body_timeout,
            lambda: HEADS.break_off(scope),
        )  # fmt: skip
        outcome = OK
        refused = 0
        try:
            if len(headers) != len(pairs):
                refuse_repeated(pairs)
            call.principal = await self._caller(headers)
            call.key = await self._key(call.principal, name)
            _check_form(headers)
            if len(self._on_their_way) >= self._settings.max_streams:
                raise Problem("too-many", "too many streams are on their way at once; try again")
            self._on_their_way.add(stream)
            await self.serve(scope, headers, call.key, _length(scope, headers), stream)
        except asyncio.CancelledError:
            outcome = CLIENT_CLOSED
            raise
        except Exception as error:
            ended = stream.failure if isinstance(error, Disconnected) and stream.failure is not None else error
            problem = self._problem(ended, identity)
            outcome = CLIENT_CLOSED if problem is None else OUTCOME[problem.type]
            failed = await call.record_end(problem, stream.outlet.sent)
            if stream.outlet.started:
                await self._drop(scope, body, gone=problem is None)
            elif problem is not None:
                refused = await refuse(send, body, failed or problem, identity)
        finally:
            self._on_their_way.discard(stream)
            await stream.close()
            counters.finish(outcome, started, body.size, stream.outlet.sent + refused)

    async def _caller(self, headers: Headers) -> Principal:
        authorization = headers.get(b"authorization")
        try:
            return self._runtime.access.authenticate(authorization)
        except NotAuthenticated:
            return await self._runtime.access.authenticate_slow(authorization)

    async def _key(self, principal: Principal, name: str) -> Key:
        if not principal.allows(self.action, name):
            raise NotAllowed
        try:
            return await self._runtime.keyring.find(name)
        except KeyNotFound:
            raise self._runtime.access.hide(principal, name) from None

    def _problem(self, error: Exception, identity: bytes) -> Problem | None:
        """What to tell the client; None if it is not there any more."""
        if isinstance(error, Disconnected):
            return None
        if isinstance(error, Problem):
            return error
        if isinstance(error, SealaneError):
            return from_error(error)
        self._runtime.log.error(
            "a call failed", call=self.operation, request_id=identity.decode(), error=type(error).__qualname__,
            at=where(error),
        )  # fmt: skip
        return Problem("internal")

    @staticmethod
    async def _drop(scope: Scope, body: Body, *, gone: bool) -> None:
        """End the connection without the end of the answer."""
        if gone:
            return
        if not HEADS.break_off(scope):
            raise BrokenOff
        try:
            # The server takes note of it in the loop's next rounds; before that it would complain about us.
            async with asyncio.timeout(_DROP_SECONDS):
                await body.gone()
        except TimeoutError:
            raise BrokenOff from None


class SealStream(StreamCall):
    """POST /v1/keys/{key}/seal-stream"""

    operation: ClassVar[str] = "seal-stream"
    action: ClassVar[str] = "seal"

    async def serve(self, scope: Scope, headers: Headers, key: Key, length: int | None, stream: Stream) -> None:
        serve = stream.seal_held if _half_duplex(headers) else stream.seal
        await serve(key, aad_of(headers), length)


class OpenStream(StreamCall):
    """POST /v1/keys/{key}/open-stream"""

    operation: ClassVar[str] = "open-stream"
    action: ClassVar[str] = "open"

    async def serve(self, scope: Scope, headers: Headers, key: Key, length: int | None, stream: Stream) -> None:
        # What must wait for the body's end gains nothing by being released unverified.
        early = _by_chunk(scope) and not _half_duplex(headers)
        serve = stream.open_by_chunk if early else stream.open_verified
        await serve(key, aad_of(headers), length, self._runtime.keyring.newer)


class _Call:
    """One call as the audit trail has it."""

    def __init__(self, kind: StreamCall, identity: bytes, body: Body) -> None:
        self._kind = kind
        self._audit = kind._runtime.audit
        self._identity = identity
        self._body = body
        self.principal: Principal | None = None
        self.key: Key | None = None
        self.version: int | None = None

    async def record(self, version: int | None, outcome: str, sent: int) -> None:
        """AuditUnavailable."""
        if not self._audit.records_calls:
            return
        self._audit.call(
            self.principal.actor if self.principal is not None else "unknown", self._kind.operation,
            self.key.name if self.key is not None else None, version, outcome, self._body.size, sent,
            request_id=self._identity.decode(),
        )  # fmt: skip
        if self._audit.needs_sync:
            await self._audit.sync()

    async def record_end(self, problem: Problem | None, sent: int) -> Problem | None:
        """Record that the call failed, with `problem` or since the client went away. The problem with that, if any."""
        if problem is not None and problem.type == "audit-unavailable":
            return None
        try:
            await self.record(self.version, "client-closed" if problem is None else problem.type, sent)
        except SealaneError as error:
            return from_error(error)
        return None


def _check_form(headers: Headers) -> None:
    # Many clients name no type for a stream, and there is only one that it can be.
    if media_type(headers) not in (OCTETS, b""):
        raise unsupported_media_type("application/octet-stream")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Problem("unsupported-media-type", "send the body without Content-Encoding")


def _length(scope: Scope, headers: Headers) -> int | None:
    """Bytes of the body; None if only its end will tell."""
    length = declared_length(headers)
    if scope.get("http_version") == "1.0":
        # Such a client knows no chunks: without their length neither its body nor the answer has an end.
        if b"transfer-encoding" in headers:
            raise malformed("wanted Content-Length, since HTTP/1.0 has no Transfer-Encoding")
        return length or 0
    if length is None and scope.get("http_version") == "1.1" and b"transfer-encoding" not in headers:
        return 0
    return length


def _half_duplex(headers: Headers) -> bool:
    """Whether something between us and the client, an nginx for one, carries no answer while the body still comes."""
    duplex = headers.get(b"sealane-duplex", b"full")
    if duplex not in (b"full", b"half"):
        raise malformed("wanted Sealane-Duplex: full or half")
    return duplex == b"half"


def _by_chunk(scope: Scope) -> bool:
    release = [value for name, value in parse_qsl(scope["query_string"].decode("latin-1"), True) if name == "release"]
    if release not in ([], ["chunk"]):
        raise malformed("wanted release=chunk in the query, or no release at all")
    return bool(release)


def _head(length: int | None, version: int, identity: bytes) -> HeaderList:
    headers = [
        (b"content-type", OCTETS),
        *COMMON,
        (b"x-request-id", identity),
        (b"sealane-key-version", b"%d" % version),
    ]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return headers
