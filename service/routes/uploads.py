"""MACs over uploads that pause and resume: create, append, ask and abandon.

ASGI endpoints like those of messages, since an append is a stream of any length.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, ClassVar, Final

from msgspec import Meta, Struct

from service.access import Access, Principal
from service.codecs import KeyVersionNumber, MacAnswer, VerifyAnswer, encode
from service.errors import KeyNotFound, NotAuthenticated, SealaneError, UploadConflict, UploadSuperseded
from service.formats import encode_base64
from service.keyring import Key
from service.logs import where
from service.problems import Problem, from_error, malformed
from service.routes.calls import base64_header
from service.routes.upload_fields import PARTIAL, complete_of, length_of, offset_of, state_headers
from service.runtime import Runtime
from service.telemetry import CLIENT_CLOSED, OK, OUTCOME
from service.upload import Upload
from service.upload_rows import Progress
from service.wire import (
    COMMON,
    EXCHANGE,
    JSON,
    OCTETS,
    Body,
    Disconnected,
    HeaderList,
    Headers,
    Receive,
    Scope,
    Send,
    accepts_octets,
    declared_length,
    media_type,
    refuse,
    refuse_repeated,
    request_id,
)

PREFIX: Final = "/v1/mac-streams/"


class MacStream(Struct):
    """An upload that was begun."""

    id: Annotated[str, Meta(description="Append at /v1/mac-streams/ and this.")]
    key: str
    key_version: KeyVersionNumber
    offset: Annotated[int, Meta(ge=0, description="Bytes that it has.")]
    expires_at: Annotated[str, Meta(description="RFC 3339; from then on it can't be resumed.")]


@dataclass
class Ask:
    """A request, as far as it is known. `progress`: of its upload, once that is found."""

    scope: Scope
    headers: Headers
    body: Body
    name: str
    principal: Principal | None = None
    progress: Progress | None = None

    def allowed(self, action: str, key_name: str) -> bool:
        return self.principal is not None and self.principal.allows(action, key_name)

    @property
    def caller(self) -> Principal:
        if self.principal is None:
            raise NotAuthenticated
        return self.principal


@dataclass
class Reply:
    status: int
    headers: HeaderList = field(default_factory=list)
    content: bytes = b""
    content_type: bytes = JSON


class UploadCall(ABC):
    """One of the calls on uploads."""

    #: Which counters it has, and how the audit trail names it.
    operation: ClassVar[str]

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._uploads = runtime.core.uploads

    @abstractmethod
    async def serve(self, ask: Ask) -> Reply: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        (scope.get("extensions") or {}).pop(EXCHANGE, None)
        pairs = scope["headers"]
        headers: Headers = dict(pairs)
        identity = request_id(headers)
        ask = Ask(scope, headers, Body(receive, headers, self._runtime.watch), name)
        counters = self._runtime.metrics.call(self.operation, "raw")
        started = counters.start()
        outcome, sent = OK, 0
        try:
            if len(headers) != len(pairs):
                refuse_repeated(pairs)
            ask.principal = await self._caller(headers)
            reply = await self.serve(ask)
            await self._record(ask, "ok", len(reply.content), identity)
            sent = len(reply.content)
            await _send(send, reply, identity)
        except Disconnected:
            outcome = CLIENT_CLOSED
        except (Problem, SealaneError) as error:
            problem = error if isinstance(error, Problem) else _problem(error)
            if problem.type != "audit-unavailable":
                try:
                    await self._record(ask, problem.type, 0, identity)
                except SealaneError as failure:
                    problem = from_error(failure)
            outcome = OUTCOME[problem.type]
            sent = await refuse(send, ask.body, problem, identity)
        except asyncio.CancelledError:
            outcome = CLIENT_CLOSED
            raise
        except Exception as error:
            self._runtime.log.error(
                "a call failed", call=self.operation, request_id=identity.decode(), error=type(error).__qualname__,
                at=where(error),
            )  # fmt: skip
            outcome = OUTCOME["internal"]
            sent = await refuse(send, ask.body, Problem("internal"), identity)
        finally:
            if self.operation == "mac-stream" and ask.progress is not None and ask.progress.verifies:
                verified = self._runtime.metrics.call("verify-stream", "raw")
                counters.move(verified)
                counters = verified
            counters.finish(outcome, started, ask.body.size, sent)

    async def _caller(self, headers: Headers) -> Principal:
        authorization = headers.get(b"authorization")
        try:
            return self._runtime.access.authenticate(authorization)
        except NotAuthenticated:
            return await self._runtime.access.authenticate_slow(authorization)

    async def _record(self, ask: Ask, outcome: str, sent: int, identity: bytes) -> None:
        audit = self._runtime.audit
        if not audit.records_calls:
            return
        found = ask.progress
        action = self.operation if found is None or not found.verifies else f"verify-{self.operation[4:]}"
        audit.call(
            ask.principal.actor if ask.principal is not None else "unknown", action,
            found.key_name if found else None, found.key_version if found else None, outcome, ask.body.size, sent,
            request_id=identity.decode(), stream=found.id if found else None,
        )  # fmt: skip
        if audit.needs_sync:
            await audit.sync()

    async def _read(self, ask: Ask, upload: Upload, complete: bool) -> Reply:
        """Take the body into the upload, and finish that if it is then complete."""
        ask.progress = upload.progress
        try:
            try:
                await upload.read(ask.body)
                ask.progress = upload.progress
                if not complete:
                    await upload.pause()
                    ask.progress = upload.progress
                    return Reply(204, state_headers(ask.progress))
                # An upload may take long: whoever was refused meanwhile gets no MAC.
                ask.principal = await self._still_allowed(ask, upload)
                ask.progress = await upload.finish()
            except UploadSuperseded as error:
                if not upload.draining:
                    raise
                headers = {} if error.offset is None else {"upload-offset": str(error.offset)}
                raise Problem("draining", close=True, headers=headers) from None
            except Problem as problem:
                # A body that is too slow: what came of it is kept.
                problem.headers["upload-offset"] = str(upload.offset)
                raise
            return _result(ask.progress, accepts_octets(ask.headers))
        finally:
            upload.close()

    async def _still_allowed(self, ask: Ask, upload: Upload) -> Principal:
        try:
            principal = await self._caller(ask.headers)
            Access.require(principal, "verify" if upload.progress.verifies else "mac", upload.progress.key_name)
            return principal
        except SealaneError:
            await upload.pause()
            raise


class Create(UploadCall):
    """POST /v1/keys/{key}/mac-streams"""

    operation = "mac-stream-create"

    async def serve(self, ask: Ask) -> Reply:
        headers = ask.headers
        _check_encoding(headers)
        mac_text = headers.get(b"sealane-mac")
        Access.require(ask.caller, "mac" if mac_text is None else "verify", ask.name)
        key = await self._key(ask.caller, ask.name)
        complete = complete_of(headers)
        has_body = b"transfer-encoding" in headers or bool(declared_length(headers))
        if has_body and complete is None:
            raise malformed("wanted the header Upload-Complete: ?0 or ?1 with a body")
        if has_body and media_type(headers) not in (OCTETS, PARTIAL):
            raise Problem("unsupported-media-type", "send Content-Type: application/octet-stream")
        length = length_of(headers, 0, bool(complete))
        mac = None if mac_text is None else base64_header("Sealane-Mac", mac_text)
        if mac is not None and key.may_be_newer(mac):
            key = await self._runtime.keyring.newer(key)
        upload = await self._uploads.create(key, mac, length, claimed=has_body or bool(complete))
        if has_body or complete:
            reply = await self._read(ask, upload, bool(complete))
        else:
            ask.progress = upload.progress
            reply = Reply(201, state_headers(ask.progress))
        location = f"{ask.scope.get('root_path', '')}{PREFIX}{upload.id}".encode()
        reply.headers.append((b"location", location))
        if not complete:
            progress = upload.progress
            reply.status = 201
            reply.content = encode(
                MacStream(
                    upload.id, progress.key_name, progress.key_version, progress.offset, progress.expires_at.isoformat()
                )
            )
            reply.headers.append((b"sealane-key-version", b"%d" % progress.key_version))
        return reply

    async def _key(self, principal: Principal, name: str) -> Key:
        try:
            return await self._runtime.keyring.find(name)
        except KeyNotFound:
            raise Access.hide(principal, name) from None


class Append(UploadCall):
    """PATCH /v1/mac-streams/{id}"""

    operation = "mac-stream"

    async def serve(self, ask: Ask) -> Reply:
        headers = ask.headers
        _check_encoding(headers)
        if media_type(headers) != PARTIAL:
            raise Problem(
                "unsupported-media-type", "send Content-Type: application/partial-upload",
                headers={"accept-patch": PARTIAL.decode()}, accepted=[PARTIAL.decode()],
            )  # fmt: skip
        offset = offset_of(headers)
        complete = complete_of(headers)
        if complete is None:
            raise malformed("wanted the header Upload-Complete: ?1 if the upload ends with this request, else ?0")
        length = length_of(headers, offset, complete)
        upload = await self._uploads.claim(ask.name, offset, length, ask.allowed)
        return await self._read(ask, upload, complete)


class Inquire(UploadCall):
    """HEAD /v1/mac-streams/{id}"""

    operation = "mac-stream-ask"

    async def serve(self, ask: Ask) -> Reply:
        progress = ask.progress = await self._uploads.ask(ask.name, ask.allowed)
        return Reply(204, state_headers(progress) + _result_headers(progress))


class Abandon(UploadCall):
    """DELETE /v1/mac-streams/{id}"""

    operation = "mac-stream-abandon"

    async def serve(self, ask: Ask) -> Reply:
        ask.progress = await self._uploads.abandon(ask.name, ask.allowed)
        return Reply(204)


BY_METHOD: Final[dict[str, type[UploadCall]]] = {"HEAD": Inquire, "PATCH": Append, "DELETE": Abandon}


def _check_encoding(headers: Headers) -> None:
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Problem("unsupported-media-type", "send the body without Content-Encoding")


def _problem(error: SealaneError) -> Problem:
    problem = from_error(error)
    if isinstance(error, UploadConflict) and error.offset is not None:
        problem.headers["upload-offset"] = str(error.offset)
        problem.extra["expected-offset"] = error.offset
    return problem


def _result(progress: Progress, octets: bool) -> Reply:
    headers = state_headers(progress) + _result_headers(progress)
    result = progress.result
    if isinstance(result, bytes):
        headers.append((b"sealane-key-version", b"%d" % progress.key_version))
        if octets:
            return Reply(200, headers, result, OCTETS)
        return Reply(200, headers, encode(MacAnswer(result, progress.key_version)))
    return Reply(200, headers, encode(VerifyAnswer(bool(result))))


def _result_headers(progress: Progress) -> HeaderList:
    """The result once more, so that HEAD can tell it to a client that lost the answer."""
    if isinstance(progress.result, bytes):
        return [(b"sealane-mac", encode_base64(progress.result).encode())]
    if progress.result is not None:
        return [(b"sealane-valid", b"?1" if progress.result else b"?0")]
    return []


async def _send(send: Send, reply: Reply, identity: bytes) -> None:
    headers = [*reply.headers, *COMMON, (b"x-request-id", identity)]
    if reply.status != HTTPStatus.NO_CONTENT:
        headers += [(b"content-type", reply.content_type), (b"content-length", b"%d" % len(reply.content))]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.content})
