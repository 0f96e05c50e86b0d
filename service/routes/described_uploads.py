"""How the calls on uploads appear in the OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Path, Request, Response
from starlette.types import Receive, Scope, Send

from service.problems import KINDS
from service.routes.described import REF, problem_responses
from service.routes.keys import KeyName
from service.routes.management import BEARER
from service.routes.upload_fields import PARTIAL
from service.routes.uploads import PREFIX, MacStream

_SECURITY: Final[list[dict[str, list[str]]]] = [{BEARER.scheme_name: []}]
_OCTETS: Final = {"schema": {"type": "string", "format": "binary"}}
_BASE64: Final = {"type": "string", "contentEncoding": "base64"}
_BOOLEAN: Final = {"type": "string", "enum": ["?0", "?1"]}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
_ALWAYS: Final = ["not-authenticated", "internal", "storage-unavailable", "audit-unavailable"]
_BODY: Final = ["malformed", "upload-length", "body-too-slow", "key-deleted", "upload-superseded",
                "unsupported-media-type", "draining"]  # fmt: skip

_STATE: Final = {
    "Upload-Offset": {"description": "Bytes that the upload has; the next append begins here.", "schema": _COUNT},
    "Upload-Complete": {"description": "Whether the upload is complete.", "schema": _BOOLEAN},
    "Upload-Limit": {"description": "`max-age`: seconds until it can't be resumed.", "schema": {"type": "string"}},
    "Upload-Length": {"description": "Bytes in all, if they are known.", "schema": _COUNT},
}
_RESULT: Final = {
    "Sealane-Mac": {"description": "Of a complete upload: its MAC in base64.", "schema": _BASE64},
    "Sealane-Valid": {"description": "Of a complete upload that verifies: whether the MAC is right.",
                      "schema": _BOOLEAN},
}  # fmt: skip
_VERSION: Final = {"Sealane-Key-Version": {"description": "The version of the key.", "schema": {"type": "integer"}}}

StreamId = Annotated[str, Path(description="As the creation gave it.", examples=["abcdefghijklmnopqrstuvwxyz"])]
Serve = Callable[[Scope, Receive, Send, str], Awaitable[None]]


class _Delegated(Response):
    """An answer that a call gives by itself, for when one is reached through FastAPI's routing."""

    def __init__(self, serve: Serve, name: str) -> None:
        super().__init__()
        self._serve, self._name = serve, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._serve(scope, receive, send, self._name)


def components() -> dict[str, Any]:
    """The schemas of what these calls alone answer, by name."""
    return msgspec.json.schema_components((MacStream,), ref_template=REF)[1]


def describe_uploads(router: APIRouter, calls: Mapping[str, Any], by_method: Mapping[str, Any]) -> None:
    """Add the routes by which the calls are documented; `calls` and `by_method` give them once they exist."""

    async def create(key: KeyName, _: Request) -> Response:
        return _Delegated(calls["mac-streams"], key)

    result = {
        "application/json": {
            "schema": {"oneOf": [{"$ref": REF.format(name=f"{name}Answer")} for name in ("Mac", "Verify")]}
        },
        "application/octet-stream": _OCTETS,
    }
    router.add_api_route(
        "/v1/keys/{key}/mac-streams", create, methods=["POST"], name="mac-stream-create", tags=["macs"],
        status_code=201, response_class=Response,
        summary="Begin a MAC over an upload",
        description="Begin an upload that may pause and resume, as draft-ietf-httpbis-resumable-upload describes. With "
        "`Sealane-Mac` it verifies that MAC. Best with an empty body: the client then knows where to go on before it "
        "sends anything. A body is the first part of the upload, or all of it with `Upload-Complete: ?1`, which "
        "answers with the result at once (200).",
        responses={
            201: {
                "description": "Begun; append at Location.",
                "content": {"application/json": {"schema": {"$ref": REF.format(name="MacStream")}}},
                "headers": {"Location": {"schema": {"type": "string"}}, **_STATE, **_VERSION},
            },
            200: {"description": "Complete.", "content": result, "headers": {**_STATE, **_RESULT, **_VERSION}},
        },
        openapi_extra={
            "security": _SECURITY,
            "parameters": [
                _header("Sealane-Mac", "The MAC to verify, in base64.", _BASE64),
                _header("Upload-Complete", "Whether the body is all of the upload.", _BOOLEAN),
                _header("Upload-Length", "Bytes in all, if they are known.", _COUNT),
            ],
            "requestBody": {"required": False, "content": {"application/octet-stream": _OCTETS}},
            "responses": _problems(
                *_BODY, "wrong-key-type", "not-allowed", "key-not-found", "too-many"
            ),
        },
    )  # fmt: skip
    _add(
        router, by_method, "PATCH", "mac-stream", "Append to an upload",
        "Go on at `Upload-Offset`, which must be where the upload is. Whoever else appends at this moment is stopped. "
        "With `Upload-Complete: ?1` the upload ends with this request: the MAC, or whether it verified, is the answer, "
        "and the upload's state is destroyed.",
        {
            200: {"description": "Complete.", "content": result, "headers": {**_STATE, **_RESULT, **_VERSION}},
            204: {"description": "Appended.", "headers": _STATE},
        },
        {
            "parameters": [
                _header("Upload-Offset", "Bytes that the upload has.", _COUNT, required=True),
                _header("Upload-Complete", "Whether the upload ends with this body.", _BOOLEAN, required=True),
                _header("Upload-Length", "Bytes in all, if they are known.", _COUNT),
            ],
            "requestBody": {"required": True, "content": {PARTIAL.decode(): _OCTETS}},
        },
        [*_BODY, "upload-not-found", "upload-offset", "upload-completed", "upload-gone"],
    )  # fmt: skip
    _add(
        router, by_method, "HEAD", "mac-stream-ask", "Ask how far an upload is",
        "Its state, and of a complete upload the result, for as long as that is kept. An append on its way is stopped, "
        "so that the offset stays true.",
        {204: {"description": "It is there.", "headers": {**_STATE, **_RESULT}}},
        {},
        ["upload-not-found", "upload-gone"],
    )  # fmt: skip
    _add(
        router, by_method, "DELETE", "mac-stream-abandon", "Abandon an upload",
        "Destroy its state, or of a complete upload the result that is kept.",
        {204: {"description": "It is gone."}},
        {},
        ["upload-not-found"],
    )  # fmt: skip


def _add(
    router: APIRouter, by_method: Mapping[str, Any], method: str, name: str, summary: str, text: str,
    responses: dict[int | str, dict[str, Any]], extra: dict[str, Any], slugs: list[str],
) -> None:  # fmt: skip
    async def endpoint(stream: StreamId, _: Request) -> Response:
        return _Delegated(by_method[method], stream)

    router.add_api_route(
        PREFIX + "{stream}", endpoint, methods=[method], name=name, tags=["macs"], summary=summary, description=text,
        status_code=204, response_class=Response, responses=responses,
        openapi_extra={"security": _SECURITY, "responses": _problems(*slugs), **extra},
    )  # fmt: skip


def _header(name: str, text: str, schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": text, "schema": schema, "required": required}


def _problems(*slugs: str) -> dict[str, Any]:
    return problem_responses(*sorted({*slugs, *_ALWAYS}, key=lambda slug: KINDS[slug].status))
