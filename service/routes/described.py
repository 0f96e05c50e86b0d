"""How the message calls appear in the OpenAPI: the schemas are those of the structs that decode and encode them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from service import codecs
from service.keyring import Keyring
from service.problems import KINDS, MEDIA_TYPE, Kind
from service.routes.calls import MessageCall
from service.routes.keys import KeyName
from service.routes.management import BEARER

REF: Final = "#/components/schemas/{name}"
_STRUCTS: Final = (
    codecs.SealItem, codecs.SealBatch, codecs.SealAnswer,
    codecs.OpenItem, codecs.OpenBatch, codecs.OpenAnswer,
    codecs.MacItem, codecs.MacBatch, codecs.MacAnswer,
    codecs.VerifyItem, codecs.VerifyBatch, codecs.VerifyAnswer,
    codecs.ItemProblem, codecs.ProblemMembers,
)  # fmt: skip
_OCTETS: Final = {"schema": {"type": "string", "format": "binary"}}
_BASE64: Final = {"type": "string", "contentEncoding": "base64"}
_VERSION_HEADER: Final = {
    "Sealane-Key-Version": {"description": "The version of the key that was used.", "schema": {"type": "integer"}}
}
_AAD_HEADER: Final = {
    "name": "Sealane-Aad",
    "in": "header",
    "description": "With octets: the AAD in base64. Without it the AAD is empty.",
    "schema": _BASE64,
}
_MAC_HEADER: Final = {
    "name": "Sealane-Mac",
    "in": "header",
    "description": "With octets: the MAC in base64.",
    "schema": _BASE64,
}

_HELLO: Final = base64.b64encode(b"hello, world").decode()
_ORDER: Final = base64.b64encode(b"order 66").decode()
# In form, but under no key that exists: what a development server shows instead really opens.
_SEALED: Final = base64.b64encode(bytes((1, 2, 0, 0, 0, 0, 0, 1)) + bytes(24 + 12 + 16)).decode()
_MACED: Final = base64.b64encode(bytes((3, 3, 0, 0, 0, 0, 0, 1)) + bytes(40)).decode()

_SUMMARIES: Final = {
    "seal": ("Seal a message", "Encrypt and authenticate. JSON, octets both ways, or a batch."),
    "open": ("Open a message", "The inverse of seal. 422 for a wrong key, AAD, tag or unknown version: one answer."),
    "mac": ("Make a MAC", "Over JSON or a body of octets of any length. Octets if Accept asks for them, else JSON."),
    "verify": ("Verify a MAC", "Over JSON or a body of octets of any length, with the MAC in `Sealane-Mac`."),
}


def components() -> dict[str, Any]:
    """The schemas of the structs, and of the lists of them that batches yield, by name."""
    _, schemas = msgspec.json.schema_components(_STRUCTS, ref_template=REF)
    return {**schemas, **{f"{action.title()}Results": _results(action.title()) for action in _SUMMARIES}}


def _results(name: str) -> dict[str, Any]:
    each = {"oneOf": [{"$ref": REF.format(name=f"{name}Answer")}, {"$ref": REF.format(name="ItemProblem")}]}
    return {
        "title": f"{name}Results",
        "description": "One result per item, in the order of the items: its answer, or the problem with it.",
        "type": "object",
        "properties": {"results": {"type": "array", "items": each}},
        "required": ["results"],
    }


def examples(sealed: str = _SEALED, mac: str = _MACED) -> dict[str, dict[str, Any]]:
    """Request bodies of each call, by name."""
    return {
        "seal": {
            "one": {"plaintext": _HELLO, "aad": _ORDER},
            "batch": {"items": [{"plaintext": _HELLO}, {"plaintext": "", "aad": _ORDER}]},
        },
        "open": {
            "one": {"sealed": sealed, "aad": _ORDER},
            "batch": {"items": [{"sealed": sealed, "aad": _ORDER}, {"sealed": sealed}]},
        },
        "mac": {"one": {"message": _HELLO}, "batch": {"items": [{"message": _HELLO}, {"message": ""}]}},
        "verify": {
            "one": {"message": _HELLO, "mac": mac},
            "batch": {"items": [{"message": _HELLO, "mac": mac}, {"message": "", "mac": mac}]},
        },
    }


def live_examples(keyring: Keyring, seals: str, macs: str) -> dict[str, dict[str, Any]]:
    """As `examples`, with a message and a MAC made by these keys of a development server, so that they work."""
    sealed, _ = keyring.get(seals).seal(base64.b64decode(_HELLO), base64.b64decode(_ORDER))
    mac = keyring.get(macs).mac_start()
    mac.update(base64.b64decode(_HELLO))
    return examples(base64.b64encode(sealed).decode(), base64.b64encode(mac.finish()).decode())


def problem_responses(*slugs: str) -> dict[str, Any]:
    """The problems that a call may answer with, by status."""
    by_status: dict[int, list[Kind]] = {}
    for slug in slugs:
        by_status.setdefault(KINDS[slug].status, []).append(KINDS[slug])
    return {
        str(status): {
            "description": "; ".join(f"{kind.title} (`{kind.slug}`)" for kind in kinds),
            "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="ProblemModel")}}},
        }
        for status, kinds in sorted(by_status.items())
    }


class _Delegated(Response):
    """An answer that a message call gives by itself, for when one is reached through FastAPI's routing."""

    def __init__(self, call: MessageCall[Any], key: str) -> None:
        super().__init__()
        self._call, self._key = call, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._call(scope, receive, send, self._key)


def describe(router: APIRouter, actions: Mapping[str, Any]) -> None:
    """Add a route for each of `actions`, by which it is documented; `actions` gives the call once that exists."""
    for action, (summary, text) in _SUMMARIES.items():
        _add(router, actions, action, summary, text)


def _add(router: APIRouter, actions: Mapping[str, Any], action: str, summary: str, text: str) -> None:
    name = action.title()
    octets_out = action in ("seal", "open", "mac")
    parameters = {"seal": [_AAD_HEADER], "open": [_AAD_HEADER], "verify": [_MAC_HEADER]}.get(action, [])
    slugs = ["malformed", "wrong-key-type", "not-authenticated", "not-allowed", "key-not-found", "body-too-slow",
             "key-deleted", "too-large", "batch-too-large", "unsupported-media-type", "too-many", "internal",
             "storage-unavailable", "audit-unavailable"]  # fmt: skip
    slugs += {"seal": ["limit-reached"], "open": ["does-not-open"]}.get(action, [])

    async def endpoint(key: KeyName, _: Request) -> Response:
        return _Delegated(actions[action], key)

    content: dict[str, Any] = {
        "application/json": {
            "schema": {"oneOf": [{"$ref": REF.format(name=f"{name}{kind}")} for kind in ("Answer", "Results")]}
        }
    }
    if octets_out:
        content["application/octet-stream"] = _OCTETS
    router.add_api_route(
        f"/v1/keys/{{key}}/{action}",
        endpoint,
        methods=["POST"],
        name=action,
        tags=["macs" if action in ("mac", "verify") else "messages"],
        summary=summary,
        description=text,
        response_class=Response,
        responses={
            200: {
                "description": "Done; in a batch, each result is an answer or a problem.",
                "content": content,
                "headers": {} if action == "verify" else _VERSION_HEADER,
            }
        },
        openapi_extra={
            "security": [{BEARER.scheme_name: []}],
            "parameters": parameters,
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {"oneOf": [{"$ref": REF.format(name=f"{name}{kind}")} for kind in ("Item", "Batch")]},
                        "examples": {key: {"value": value} for key, value in examples()[action].items()},
                    },
                    "application/octet-stream": _OCTETS,
                },
            },
            "responses": problem_responses(*slugs),
        },
    )
