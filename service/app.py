"""The application: FastAPI for management and documentation, and the message calls dispatched ahead of it.

FastAPI's routing and validation cost more than a seal does, and any middleware costs every call. So the message calls
are ASGI endpoints that `__call__` finds by a split of the path; everything else goes on to FastAPI.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from service.errors import SealaneError
from service.managed import Managed
from service.problems import MEDIA_TYPE, Problem, from_error, malformed, method_not_allowed
from service.routes import described_streams, described_uploads, docs, keys, operations, streams, tokens, uploads
from service.routes.calls import MessageCall
from service.routes.described import components, describe, live_examples, problem_responses
from service.routes.macs import Mac, Verify
from service.routes.messages import Open, Seal
from service.routes.models import ProblemModel
from service.routes.upload_fields import PARTIAL
from service.runtime import Runtime
from service.settings import Settings
from service.setup import DEV_KEY, DEV_MAC_KEY
from service.telemetry import OUTCOME
from service.wire import HEADS, Receive, Scope, Send

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_MESSAGE_CALLS: tuple[type[MessageCall[Any]], ...] = (Seal, Open, Mac, Verify)
_STREAM_CALLS: tuple[type[streams.StreamCall], ...] = (streams.SealStream, streams.OpenStream)
# Validation messages of pydantic that consist of the rule alone.
_RULES = {
    "missing", "string_type", "string_too_short", "string_too_long", "string_pattern_mismatch", "int_type",
    "int_parsing", "bool_type", "list_type", "model_attributes_type", "model_type", "dict_type", "literal_error",
    "greater_than", "greater_than_equal", "less_than", "less_than_equal", "too_short", "too_long", "timezone_aware",
}  # fmt: skip
_DESCRIPTION = """Applications send plaintext and get back sealed messages, or stream data through and get back a MAC;
they never hold a key. Every error is a problem (RFC 9457) of a stable `type` that repeats nothing of the request."""


class Sealane(FastAPI):
    """The service of one worker. `runtime` is there from its start on."""

    runtime: Runtime

    def __init__(
        self,
        settings: Settings,
        metrics_folder: Path | None = None,
        on_start: Callable[[Runtime], None] | None = None,
    ) -> None:
        super().__init__(
            title="Sealane", version=version("sealane"), description=_DESCRIPTION, docs_url=None, redoc_url=None,
            lifespan=_lifespan, separate_input_output_schemas=False,
        )  # fmt: skip
        self.settings = settings
        self._metrics_folder = metrics_folder
        self._on_start = on_start
        self._calls: dict[str, MessageCall[Any] | streams.StreamCall | uploads.UploadCall] = {}
        self._uploads: dict[str, uploads.UploadCall] = {}
        described = APIRouter()
        describe(described, self._calls)
        described_streams.describe_streams(described, self._calls)
        described_uploads.describe_uploads(described, self._calls, self._uploads)
        for router in (described, keys.router, tokens.router, operations.engine_router, operations.router, docs.router):
            self.include_router(router)
        self.add_exception_handler(Problem, _on_problem)
        self.add_exception_handler(SealaneError, _on_error)
        self.add_exception_handler(HTTPException, _on_http_exception)
        self.add_exception_handler(RequestValidationError, _on_invalid)
        self.add_exception_handler(Exception, _on_failure)

    def open(self) -> None:
        """Make the runtime; blocks. As `Core.open`."""
        self.runtime = Runtime.open(self.settings, self._metrics_folder)
        self.runtime.spool.open()

    async def start(self) -> None:
        """Begin to serve message calls."""
        runtime = self.runtime
        runtime.core.follower.add_chore(runtime.report, always=True)
        await runtime.core.start()
        self._calls.update({call.action: call(runtime) for call in _MESSAGE_CALLS})
        self._calls.update({call.operation: call(runtime) for call in _STREAM_CALLS})
        self._calls["mac-streams"] = uploads.Create(runtime)
        self._uploads.update({method: call(runtime) for method, call in uploads.BY_METHOD.items()})
        runtime.ready = True
        if self._on_start is not None:
            self._on_start(runtime)

    async def stop(self) -> None:
        self.runtime.ready = False
        await self.runtime.core.stop()
        await asyncio.to_thread(self.runtime.spool.close)
        self.runtime.metrics.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.dispatch(scope, receive, send)

    def dispatch(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """As `__call__`, for servers that take a plain function: it saves a coroutine."""
        if scope["type"] != "http":
            return self._serve_other(scope, receive, send)
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("/", ""):
            path = path[len(root) :]
        raw_path = scope.get("raw_path")
        if raw_path is not None and b"%" in raw_path and b"%2f" in raw_path.lower():
            # Decoded, it would pass for a separator.
            return Managed(self.runtime, scope, receive, send).serve(_nothing_here, scope)
        if scope["method"] == "POST":
            parts = path.split("/")
            if len(parts) == 5 and parts[2] == "keys" and parts[1] == "v1":
                call = self._calls.get(parts[4])
                if call is not None:
                    return call(scope, receive, send, parts[3])
        elif path.startswith(uploads.PREFIX):
            upload_call = self._uploads.get(scope["method"])
            name = path[len(uploads.PREFIX) :]
            if upload_call is not None and name and "/" not in name:
                return upload_call(scope, receive, send, name)
        return self._serve_managed(scope, receive, send)

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await super().__call__(scope, receive, send)

    async def _serve_managed(self, scope: Scope, receive: Receive, send: Send) -> None:
        managed = Managed(self.runtime, scope, receive, send)
        method = scope["method"]
        if method == "HEAD" and not self._serves(scope, "HEAD") and self._serves(scope, "GET"):
            # The server's own copy of the scope goes on saying HEAD: by that it knows to send no body.
            scope = {**scope, "method": "GET"}
        elif method == "OPTIONS":
            await managed.serve(self._options, {**scope, "sealane": managed})
            return
        scope["sealane"] = managed
        await managed.serve(super().__call__, scope)

    def allowed(self, scope: Scope) -> list[str]:
        """The methods that this path is served with."""
        found = [method for method in _METHODS if self._serves(scope, method)]
        if "GET" in found and "HEAD" not in found:
            found.insert(1, "HEAD")
        return [*found, "OPTIONS"] if found else []

    def _serves(self, scope: Scope, method: str) -> bool:
        asked = {**scope, "method": method}
        return any(route.matches(asked)[0] is Match.FULL for route in self.router.routes)

    async def _options(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self.allowed(scope)
        if not allowed:
            await _nothing_here(scope, receive, send)
            return
        headers = {"allow": ", ".join(allowed)}
        if str(scope["path"]).endswith("/mac-streams"):
            # So clients find out that uploads resume here.
            headers["accept-patch"] = PARTIAL.decode()
        await Response(status_code=204, headers=headers)(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, message calls included. On a development server its examples work as they stand."""
        if self.openapi_schema:
            return self.openapi_schema
        schema = super().openapi()
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(components())
        schemas.update(described_uploads.components())
        schemas["ProblemModel"] = ProblemModel.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for path, methods in schema["paths"].items():
            for operation in methods.values():
                _describe_problems(path, operation)
        if self.settings.dev and self._calls:
            for action, values in live_examples(self.runtime.keyring, DEV_KEY, DEV_MAC_KEY).items():
                body = schema["paths"][f"/v1/keys/{{key}}/{action}"]["post"]["requestBody"]
                body["content"]["application/json"]["examples"] = {
                    name: {"value": value} for name, value in values.items()
                }
        self.openapi_schema = schema
        return schema


def create_app(
    settings: Settings, metrics_folder: Path | None = None, on_start: Callable[[Runtime], None] | None = None
) -> Sealane:
    """The application for one worker. It opens storage and keys when its lifespan begins (as `Core.open` says).

    `metrics_folder`: shared by the workers of one server; without it the metrics are this worker's alone.
    `on_start` is called once it is ready.
    """
    return Sealane(settings, metrics_folder, on_start)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    assert isinstance(app, Sealane)
    await asyncio.to_thread(app.open)
    await app.start()
    asyncio.get_running_loop().set_exception_handler(_log_stray)
    sweeps = [
        asyncio.create_task(app.runtime.watch.run(), name="sealane-slow-bodies"),
        asyncio.create_task(HEADS.run(app.settings.header_timeout), name="sealane-slow-heads"),
    ]
    try:
        yield
    finally:
        for sweep in sweeps:
            sweep.cancel()
        await asyncio.gather(*sweeps, return_exceptions=True)
        await app.stop()


def _log_stray(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would log by itself would hold the representation of whatever failed."""
    import structlog

    structlog.get_logger("sealane").error("an error that nobody awaited", exc_info=context.get("exception"))


def _describe_problems(path: str, operation: dict[str, Any]) -> None:
    """Replace FastAPI's 422 by the problems that a management call may answer with."""
    responses = operation["responses"]
    if "422" in responses:
        responses["422"]["content"].pop("application/json", None)
        if not responses["422"]["content"]:
            del responses["422"]
    if path in ("/livez", "/metrics"):
        slugs = ["internal"]
    elif path == "/readyz":
        slugs = ["not-ready", "draining", "internal"]
    else:
        slugs = ["malformed", "not-authenticated", "not-allowed", "internal", "storage-unavailable"]
        if "requestBody" in operation:
            slugs += ["body-too-slow", "too-large", "unsupported-media-type"]
        if path.startswith("/v1/keys/"):
            slugs += ["key-not-found", "key-exists", "key-deleted", "limit-reached"]
        if path == "/v1/tokens/{token}":
            slugs += ["token-not-found"]
    for status, response in problem_responses(*slugs).items():
        responses.setdefault(status, response)


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    raise Problem("not-found")


def _response(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, problem.all_headers(), media_type=MEDIA_TYPE)


def _answer(request: Request, problem: Problem) -> Response:
    request.scope["sealane"].outcome = OUTCOME[problem.type]
    return _response(problem)


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _answer(request, error)


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, SealaneError)
    return _answer(request, from_error(error))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """What Starlette and FastAPI raise by themselves."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return _answer(request, method_not_allowed(", ".join(request.app.allowed(request.scope))))
    known = {400: "malformed", 404: "not-found", 413: "too-large", 415: "unsupported-media-type"}
    return _answer(request, Problem(known.get(error.status_code, "internal")))


async def _on_failure(request: Request, error: Exception) -> Response:
    """Starlette raises the error again after this answer, and `Managed` logs it."""
    return _answer(request, Problem("internal"))


async def _on_invalid(request: Request, error: Exception) -> Response:
    """FastAPI's own answer would repeat the input. This one names members of ours and rules of ours."""
    assert isinstance(error, RequestValidationError)
    errors = []
    for found in error.errors():
        where = [str(part) for part in found["loc"]]
        unknown = found["type"] == "extra_forbidden"
        if unknown:
            where.pop()
        rule = (
            "wanted no other members"
            if unknown
            else found["msg"]
            if found["type"] in _RULES
            else "wanted another value"
        )
        errors.append({"in": where[0] if where else "body", "pointer": "".join(f"/{part}" for part in where[1:]),
                       "detail": rule})  # fmt: skip
    first = errors[0] if errors else {"in": "request", "pointer": "", "detail": "wanted another value"}
    detail = f"{first['in']} {first['pointer']}: {first['detail']}" if first["pointer"] else str(first["detail"])
    return _answer(request, malformed(detail, errors=errors))
