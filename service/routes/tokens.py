"""Tokens: create, list and revoke."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Body, Path, Response

from service.access import Access
from service.problems import malformed
from service.routes.management import Caller, ManagementRoute, Parts, RequestId
from service.routes.models import MadeToken, NewToken, Token, Tokens

router = APIRouter(prefix="/v1/tokens", route_class=ManagementRoute, tags=["tokens"])

_EXAMPLE = {
    "name": "orders service",
    "grants": [{"actions": ["seal", "open"], "keys": "orders-*"}],
    "expires_in_seconds": 86400,
}


@router.post("", name="token-create", status_code=201, summary="Create a token")
async def create_token(
    parts: Parts, caller: Caller, identity: RequestId, new: Annotated[NewToken, Body(examples=[_EXAMPLE])]
) -> MadeToken:
    """Make a token and show it, this once. Whoever may make tokens may grant anything."""
    Access.require(caller, "tokens")
    if new.expires_at is not None and new.expires_in_seconds is not None:
        raise malformed("wanted expires_at or expires_in_seconds, not both")
    expires = new.expires_at
    if new.expires_in_seconds is not None:
        expires = datetime.now(UTC) + timedelta(seconds=new.expires_in_seconds)
    token, info = await parts.access.create(
        new.name, new.grant_list(), expires, actor=caller.actor, request_id=identity
    )
    return MadeToken.made(token, info)


@router.get("", name="token-list", summary="List tokens")
async def list_tokens(parts: Parts, caller: Caller) -> Tokens:
    """What is known of all tokens; never the tokens."""
    Access.require(caller, "tokens")
    return Tokens(tokens=[Token.of(info) for info in await parts.access.list()])


@router.delete("/{token}", name="token-revoke", status_code=204, summary="Revoke a token")
async def revoke_token(
    parts: Parts,
    caller: Caller,
    identity: RequestId,
    token: Annotated[str, Path(description="The id of the token, as `GET /v1/tokens` lists it.", max_length=128)],
) -> Response:
    """Refuse a token from now on. Doing so twice is as good as once."""
    Access.require(caller, "tokens")
    await parts.access.revoke(token, actor=caller.actor, request_id=identity)
    return Response(status_code=204)
