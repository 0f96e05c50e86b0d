"""What the management calls share: bodies read strictly and within bounds, and who is asking."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from service.access import Principal
from service.codecs import check_unique, strict_json
from service.errors import NotAuthenticated
from service.problems import Problem, unsupported_media_type
from service.runtime import Runtime
from service.wire import JSON, Body, media_type, refuse_repeated

# A management body is a few members; nothing honest comes near this.
MAX_BODY = 64 * 2**10

BEARER = HTTPBearer(auto_error=False, description="A token as `sealane token create` shows it once.")


class ManagementRoute(APIRoute):
    """A FastAPI route whose caller is known, and whose body is sound JSON, before FastAPI looks at it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        wants_body = self.body_field is not None

        async def handler(request: Request) -> Response:
            runtime: Runtime = request.app.runtime
            pairs = request.scope["headers"]
            headers = dict(pairs)
            if len(headers) != len(pairs):
                refuse_repeated(pairs)
            authorization = headers.get(b"authorization")
            try:
                principal = runtime.access.authenticate(authorization)
            except NotAuthenticated:
                principal = await runtime.access.authenticate_slow(authorization)
            request.state.principal = principal
            request.state.request_id = request.scope["sealane"].identity.decode()
            if wants_body:
                body = request.scope["sealane"].body
                await _read_json(request, body, headers)
            return await handle(request)

        return handler


async def _read_json(request: Request, body: Body, headers: dict[bytes, bytes]) -> None:
    """Read the body for FastAPI. It is left alone if there is none: FastAPI then says what is missing."""
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Problem("unsupported-media-type", "send the body without Content-Encoding")
    whole = await body.whole(MAX_BODY)
    content = whole if isinstance(whole, bytes) else b"".join(whole)
    if content:
        if media_type(headers) != JSON:
            raise unsupported_media_type("application/json")
        check_unique(strict_json(content))
    # Where Starlette keeps a body that was read.
    request._body = content


async def _principal(request: Request, _: Annotated[object, Depends(BEARER)]) -> Principal:
    principal: Principal = request.state.principal
    return principal


async def _request_id(request: Request) -> str:
    identity: str = request.state.request_id
    return identity


async def _runtime(request: Request) -> Runtime:
    runtime: Runtime = request.app.runtime
    return runtime


Caller = Annotated[Principal, Depends(_principal)]
RequestId = Annotated[str, Depends(_request_id)]
Parts = Annotated[Runtime, Depends(_runtime)]
