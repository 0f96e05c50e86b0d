"""How the calls on sealed streams appear in the OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from service.routes.described import problem_responses
from service.routes.keys import KeyName
from service.routes.management import BEARER
from service.routes.streams import StreamCall

_OCTETS: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_AAD: Final = {
    "name": "Sealane-Aad",
    "in": "header",
    "description": "The AAD in base64. Without it the AAD is empty.",
    "schema": {"type": "string", "contentEncoding": "base64"},
}
_RELEASE: Final = {
    "name": "release",
    "in": "query",
    "description": "`chunk`: release plaintext as soon as its chunk of 16 KiB has verified. If a later one does not, "
    "the answer breaks off: no last chunk, or fewer bytes than Content-Length. What came before is genuine, but only "
    "the beginning of something. Without `release`, nothing is released before all has verified.",
    "schema": {"type": "string", "enum": ["chunk"]},
}
_DUPLEX: Final = {
    "name": "Sealane-Duplex",
    "in": "header",
    "description": "`half`: begin the answer only when the whole body has come, since something between client and "
    "service, an nginx for one, carries no answer before that. The sealed stream then waits in the spool, which limits "
    "its size, and `release=chunk` has no effect.",
    "schema": {"type": "string", "enum": ["full", "half"], "default": "full"},
}
_HEADERS: Final = {
    "Sealane-Key-Version": {"description": "The version of the key that was used.", "schema": {"type": "integer"}}
}
_SLUGS: Final = [
    "malformed", "wrong-key-type", "not-authenticated", "not-allowed", "key-not-found", "body-too-slow", "key-deleted",
    "too-large", "unsupported-media-type", "too-many", "internal", "storage-unavailable", "audit-unavailable",
]  # fmt: skip


class _Delegated(Response):
    """An answer that a call gives by itself, for when one is reached through FastAPI's routing."""

    def __init__(self, call: StreamCall, key: str) -> None:
        super().__init__()
        self._call, self._key = call, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._call(scope, receive, send, self._key)


def describe_streams(router: APIRouter, calls: Mapping[str, Any]) -> None:
    """Add the routes by which the calls are documented; `calls` gives them once they exist."""
    _add(
        router, calls, "seal-stream", "Seal a stream",
        "Encrypt and authenticate octets of any length. The answer begins while the body still comes. A client that "
        "sends all of its body before it reads is served too: what it does not read yet waits on disk, as ciphertext. "
        "A key of either sealing type will do.",
        [_AAD, _DUPLEX], ["spool-unavailable"],
    )  # fmt: skip
    _add(
        router, calls, "open-stream", "Open a stream",
        "The inverse of seal-stream. 422 for a wrong key, AAD or unknown version, and for a stream that was altered, "
        "cut off or continued: one answer.",
        [_AAD, _RELEASE, _DUPLEX], ["does-not-open", "spool-unavailable"],
    )  # fmt: skip


def _add(
    router: APIRouter, calls: Mapping[str, Any], operation: str, summary: str, text: str,
    parameters: list[Any], slugs: list[str],
) -> None:  # fmt: skip
    async def endpoint(key: KeyName, _: Request) -> Response:
        return _Delegated(calls[operation], key)

    router.add_api_route(
        f"/v1/keys/{{key}}/{operation}",
        endpoint,
        methods=["POST"],
        name=operation,
        tags=["streams"],
        summary=summary,
        description=text,
        response_class=Response,
        responses={200: {"description": "Done.", "content": _OCTETS, "headers": _HEADERS}},
        openapi_extra={
            "security": [{BEARER.scheme_name: []}],
            "parameters": parameters,
            "requestBody": {"required": True, "content": _OCTETS},
            "responses": problem_responses(*_SLUGS, *slugs),
        },
    )
