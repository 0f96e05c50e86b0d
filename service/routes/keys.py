"""Keys: create, list, describe, rotate, delete and undo."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated

from fastapi import APIRouter, Body, Path, Query

from service.access import Access, Principal
from service.errors import KeyNotFound
from service.keyring import KeyInfo, check_name
from service.routes.management import Caller, ManagementRoute, Parts, RequestId
from service.routes.models import Key, Keys, NewKey

router = APIRouter(prefix="/v1/keys", route_class=ManagementRoute, tags=["keys"])

KeyName = Annotated[
    str,
    Path(description="1 to 128 of a-z 0-9 . _ - beginning with a letter or digit, without `..`.", examples=["demo"]),
]


@router.get("", name="key-list", summary="List keys")
async def list_keys(
    parts: Parts,
    caller: Caller,
    prefix: Annotated[str, Query(max_length=128, description="Only keys whose names begin with this.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str, Query(max_length=128, description="Only keys whose names come after this.")] = "",
) -> Keys:
    """The keys that the token may list, in order of their names; those it may not are left out."""
    found = parts.keyring.list(prefix, limit + 1, after, lambda name: caller.allows("list", name))
    return Keys(
        keys=[Key.of(info) for info in found[:limit]], next=found[limit - 1].name if len(found) > limit else None
    )


@router.get("/{key}", name="key-describe", summary="Describe a key")
async def describe_key(parts: Parts, caller: Caller, key: KeyName) -> Key:
    """A key's type, state and versions."""
    Access.require(caller, "list", key)
    await parts.keyring.find(key)
    return Key.of(parts.keyring.describe(key))


@router.post("/{key}", name="key-create", status_code=201, summary="Create a key")
async def create_key(
    parts: Parts,
    caller: Caller,
    identity: RequestId,
    key: KeyName,
    new: Annotated[NewKey | None, Body(examples=[{"type": "xchacha20-poly1305"}])] = None,
) -> Key:
    """Make a key with one version. Without a body it is of the default type."""
    Access.require(caller, "create", key)
    check_name(key)
    kind = (new or NewKey()).type
    return Key.of(await parts.keyring.create(key, kind, actor=caller.actor, request_id=identity))


@router.post("/{key}/rotate", name="key-rotate", summary="Rotate a key")
async def rotate_key(parts: Parts, caller: Caller, identity: RequestId, key: KeyName) -> Key:
    """Add a version. New seals and MACs use it; what older versions made still opens and verifies."""
    Access.require(caller, "rotate", key)
    return await _changed(parts.keyring.rotate(key, actor=caller.actor, request_id=identity), caller, key)


@router.delete("/{key}", name="key-delete", summary="Schedule a key's deletion")
async def delete_key(parts: Parts, caller: Caller, identity: RequestId, key: KeyName) -> Key:
    """Take the key out of use now, and destroy it when `delete_at` is reached. Until then it can be undone."""
    Access.require(caller, "delete", key)
    return await _changed(parts.keyring.schedule_deletion(key, actor=caller.actor, request_id=identity), caller, key)


@router.post("/{key}/undelete", name="key-undelete", summary="Undo a key's deletion")
async def undelete_key(parts: Parts, caller: Caller, identity: RequestId, key: KeyName) -> Key:
    """Put a key back into use that is scheduled for deletion."""
    Access.require(caller, "delete", key)
    return await _changed(parts.keyring.undo_deletion(key, actor=caller.actor, request_id=identity), caller, key)


async def _changed(change: Awaitable[KeyInfo], caller: Principal, key: str) -> Key:
    """The key after a change. One that does not exist is told only to those who may list it."""
    try:
        return Key.of(await change)
    except KeyNotFound:
        raise Access.hide(caller, key) from None
