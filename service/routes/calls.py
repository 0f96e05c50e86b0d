"""What seal, open, mac and verify have in common, from a request's head to its answer.

These are ASGI endpoints that the application dispatches ahead of FastAPI's routing. They are straight on purpose:
a layer more costs as much as the cryptography of a short message.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from service.access import Principal
from service.codecs import Codec, ItemProblem, encode, item_problem
from service.errors import KeyNotFound, Malformed, NotAllowed, NotAuthenticated, SealaneError
from service.formats import decode_base64
from service.keyring import Key
from service.logs import where
from service.problems import Problem, from_error, malformed, too_large, unsupported_media_type
from service.runtime import Runtime
from service.telemetry import CLIENT_CLOSED, OK, OUTCOME
from service.wire import (
    EXCHANGE,
    JSON,
    OCTETS,
    Answers,
    Body,
    Disconnected,
    Exchange,
    Headers,
    Receive,
    Scope,
    Send,
    media_type,
    refuse,
    refuse_repeated,
    request_id,
)

T = TypeVar("T", bound=Struct)
R = TypeVar("R")

# From these sizes on, work goes to a thread so that it does not hold up other calls: about a millisecond of either.
THREAD_OCTETS = 4 * 2**20
THREAD_JSON = 256 * 2**10


# What a call answers: its body, the key version if one was used, and whether it is octets rather than JSON.
Answer = tuple[bytes, int | None, bool]


class MessageCall(ABC, Generic[T]):
    """One of the four calls on messages."""

    action: ClassVar[str]
    codec: Codec[T]

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._authenticate = runtime.access.authenticate
        self._get = runtime.keyring.get
        self._audit = runtime.audit
        self._limit = runtime.settings.max_message_bytes
        # Longer ones are for `raw`, which knows of limits and threads.
        self._now_below = min(self._limit + 1, THREAD_OCTETS)
        self._json_below = min(self._limit + 1, THREAD_JSON)
        self._max_items = runtime.settings.max_batch_items
        self._raw = runtime.metrics.call(self.action, "raw")
        self._json = runtime.metrics.call(self.action, "json")
        self._batch = runtime.metrics.call(self.action, "batch")
        self._octet_answers = Answers(OCTETS)
        self._json_answers = Answers(JSON)

    def raw_now(self, key: Key, headers: Headers, taken: bytes) -> Answer | None:
        """Serve a body of octets that has come whole, without waiting: body, key version or None, whether it is
        octets. None if that can't be, and `raw` is to do it."""
        return None

    @abstractmethod
    async def raw(self, key: Key, headers: Headers, taken: bytes | None, body: Body | None) -> Answer:
        """Serve a body of octets: `taken` if it has all come already, else `body` yet to be read."""

    def one_now(self, key: Key, item: T) -> tuple[Struct, int | None] | None:
        """As `one`, without waiting; None if that can't be, and `one` is to do it."""
        return None

    @abstractmethod
    async def one(self, key: Key, item: T) -> tuple[Struct, int | None]:
        """Serve one JSON item: its answer, and the key version if one was used."""

    @abstractmethod
    async def many(self, key: Key, items: list[T | Problem]) -> list[Struct]:
        """Serve a batch: a result for each item, in order."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        # Popped, since cycle and scope would else hold each other until the garbage collector comes.
        extensions = scope.get("extensions")
        exchange: Exchange | None = extensions.pop(EXCHANGE, None) if extensions else None
        pairs = scope["headers"]
        headers: Headers = dict(pairs)
        identity = request_id(headers)
        raw = headers.get(b"content-type") == OCTETS
        counters = self._raw if raw else self._json
        started = counters.start()
        # Asked for before anything else, since it is there only until somebody waits.
        taken = exchange.take() if exchange is not None else None
        body = Body(receive, headers, self._runtime.watch) if taken is None else None
        principal = key = None
        outcome, sent = OK, 0
        try:
            if len(headers) != len(pairs):
                refuse_repeated(pairs)
            authorization = headers.get(b"authorization")
            try:
                principal = self._authenticate(authorization)
            except NotAuthenticated:
                principal = await self._runtime.access.authenticate_slow(authorization)
            if not principal.allows(self.action, name):
                raise NotAllowed
            try:
                key = self._get(name)
            except KeyNotFound:
                key = await self._find(principal, name)
            if not raw:
                raw = self._wants_raw(headers)
            if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
                raise Problem("unsupported-media-type", "send the body without Content-Encoding")
            if raw:
                answer = None
                if taken is not None and len(taken) < self._now_below:
                    answer = self.raw_now(key, headers, taken)
                content, version, octets = answer or await self.raw(key, headers, taken, body)
                items = failed = None
            else:
                if taken is not None and len(taken) < self._json_below:
                    decoded = self.codec.decode(taken, self._max_items)
                else:
                    decoded = await self._decoded(taken, body)
                octets, version, items, failed = False, None, None, None
                if isinstance(decoded, list):
                    counters.move(self._batch)
                    counters = self._batch
                    results = await self.many(key, decoded)
                    items = len(results)
                    failed = self._count(results)
                    content = encode({"results": results})
                else:
                    result, version = self.one_now(key, decoded) or await self.one(key, decoded)
                    content = encode(result)
            sent = len(content)
            if self._audit.records_calls:
                size = body.size if body is not None else len(taken or b"")
                self._audit.call(
                    principal.actor, self.action, key.name, version, "ok", size, sent,
                    items=items, failed=failed, request_id=identity.decode(),
                )  # fmt: skip
                if self._audit.needs_sync:
                    await self._audit.sync()
            answers = self._octet_answers if octets else self._json_answers
            if exchange is None or not exchange.respond(200, answers.head(sent, identity, version), content):
                await answers.send(send, content, identity, version)
        except Disconnected:
            outcome = CLIENT_CLOSED
        except (Problem, SealaneError) as error:
            problem = error if isinstance(error, Problem) else from_error(error)
            size = body.size if body is not None else len(taken or b"")
            problem = await self._recorded(problem, principal, key, size, identity)
            outcome = OUTCOME[problem.type]
            sent = await refuse(send, body, problem, identity)
        except asyncio.CancelledError:
            outcome = CLIENT_CLOSED
            raise
        except Exception as error:
            self._runtime.log.error(
                "a call failed", call=self.action, request_id=identity.decode(), error=type(error).__qualname__,
                at=where(error),
            )  # fmt: skip
            outcome = OUTCOME["internal"]
            sent = await refuse(send, body, Problem("internal"), identity)
        finally:
            counters.finish(outcome, started, body.size if body is not None else len(taken or b""), sent)

    async def _find(self, principal: Principal, name: str) -> Key:
        """A key that this worker does not know yet; if nobody does, only those who may list it are told."""
        try:
            return await self._runtime.keyring.find(name)
        except KeyNotFound:
            raise self._runtime.access.hide(principal, name) from None

    async def _decoded(self, taken: bytes | None, body: Body | None) -> T | list[T | Problem]:
        """The item or items in a body that is large or yet to come."""
        content = await self.content(taken, body)
        if len(content) >= THREAD_JSON:
            return await asyncio.to_thread(self.codec.decode, content, self._max_items)
        return self.codec.decode(content, self._max_items)

    def _count(self, results: list[Struct]) -> int:
        """Count the results of a batch by how they ended; how many are problems."""
        failed = 0
        for result in results:
            if type(result) is ItemProblem:
                failed += 1
                self._batch.items(OUTCOME[result.problem.type.rpartition(":")[2]], 1)
        self._batch.items(OK, len(results) - failed)
        return failed

    async def content(self, taken: bytes | None, body: Body | None) -> bytes:
        """The whole body in one piece; Problem if it is too large."""
        if taken is None and body is not None:
            whole = await body.whole(self._limit)
            return whole if isinstance(whole, bytes) else b"".join(whole)
        if taken is None or len(taken) > self._limit:
            raise too_large(self._limit)
        return taken

    @staticmethod
    def _wants_raw(headers: Headers) -> bool:
        kind = media_type(headers)
        if kind == OCTETS:
            return True
        if kind == JSON:
            return False
        raise unsupported_media_type("application/json", "application/octet-stream")

    async def _recorded(self, problem: Problem, principal: Any, key: Key | None, size: int, identity: bytes) -> Problem:
        """`problem` once it is in the audit trail, or that it can't be recorded."""
        if self._audit.records_calls and problem.type != "audit-unavailable":
            try:
                self._audit.call(
                    principal.actor if principal is not None else "unknown", self.action, key.name if key else None,
                    None, problem.type, size, 0, request_id=identity.decode(),
                )  # fmt: skip
                if self._audit.needs_sync:
                    await self._audit.sync()
            except SealaneError as error:
                return from_error(error)
        return problem


def aad_of(headers: Headers) -> bytes:
    """The AAD in the header Sealane-Aad; b"" without one."""
    text = headers.get(b"sealane-aad")
    return b"" if text is None else base64_header("Sealane-Aad", text)


def base64_header(name: str, text: bytes) -> bytes:
    """The value of a header in base64; Problem if it is none."""
    try:
        return decode_base64(text)
    except Malformed as error:
        raise malformed(f"{name}: {error.detail}") from None


async def maybe_in_thread(size: int, work: Callable[..., R], *arguments: Any) -> R:
    """`work(*arguments)`, in a thread if it is about so many bytes that others would wait for long."""
    if size >= THREAD_OCTETS:
        return await asyncio.to_thread(work, *arguments)
    return work(*arguments)


def each(serve: Callable[[T], Struct], items: list[T | Problem]) -> list[Struct]:
    """`serve` each good item of a batch by itself; an item that fails yields its own problem and spoils no other."""
    results: list[Struct] = []
    for item in items:
        if isinstance(item, Problem):
            results.append(item_problem(item))
            continue
        try:
            results.append(serve(item))
        except SealaneError as error:
            results.append(item_problem(from_error(error)))
    return results
