"""Seal and open: messages up to a limit, as JSON, as octets, and in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeVar

from msgspec import Struct

from service.codecs import OPEN, SEAL, OpenAnswer, OpenItem, SealAnswer, SealItem, item_problem
from service.errors import DoesNotOpen, NeedLease
from service.keyring import Key
from service.problems import Problem
from service.routes.calls import THREAD_OCTETS, Answer, MessageCall, aad_of, each, maybe_in_thread
from service.wire import Body, Headers

# A batch of more than this is worth a thread: about a millisecond of sealing.
_THREAD_ITEMS = 1000
_LEASE_TRIES = 8

R = TypeVar("R")


class Seal(MessageCall[SealItem]):
    """POST /v1/keys/{key}/seal"""

    action: ClassVar[str] = "seal"
    codec = SEAL

    def raw_now(self, key: Key, headers: Headers, taken: bytes) -> Answer | None:
        if key.needs_lease(1):
            return None
        aad = aad_of(headers) if b"sealane-aad" in headers else b""
        return *key.seal(taken, aad), True

    async def raw(self, key: Key, headers: Headers, taken: bytes | None, body: Body | None) -> Answer:
        if body is None:
            plaintext: bytes | list[bytes] = await self.content(taken, None)
            size = len(plaintext)
        else:
            plaintext = await body.whole(self._limit)
            size = body.size
        aad = aad_of(headers)
        sealed, version = await self._leased(key, 1, lambda: maybe_in_thread(size, key.seal, plaintext, aad))
        return sealed, version, True

    async def _leased(self, key: Key, count: int, seal: Callable[[], Awaitable[R]]) -> R:
        """`seal()` with `count` messages leased for it."""
        for _ in range(_LEASE_TRIES):
            if key.needs_lease(count):
                await self._runtime.keyring.ensure_lease(key, count)
            try:
                return await seal()
            except NeedLease:
                # Others took what was leased before this one came to it.
                continue
        raise NeedLease

    def one_now(self, key: Key, item: SealItem) -> tuple[Struct, int | None] | None:
        if key.needs_lease(1) or len(item.plaintext) >= THREAD_OCTETS:
            return None
        sealed, version = key.seal(item.plaintext, item.aad or b"")
        return SealAnswer(sealed, version), version

    async def one(self, key: Key, item: SealItem) -> tuple[Struct, int | None]:
        size, aad = len(item.plaintext), item.aad or b""
        sealed, version = await self._leased(key, 1, lambda: maybe_in_thread(size, key.seal, item.plaintext, aad))
        return SealAnswer(sealed, version), version

    async def many(self, key: Key, items: list[SealItem | Problem]) -> list[Struct]:
        good = [(item.plaintext, item.aad or b"") for item in items if type(item) is SealItem]
        sealed, version = await self._leased(key, len(good), lambda: _seal_many(key, good))
        if len(good) == len(items):
            return [SealAnswer(message, version) for message in sealed]
        messages = iter(sealed)
        return [
            item_problem(item) if isinstance(item, Problem) else SealAnswer(next(messages), version) for item in items
        ]


async def _seal_many(key: Key, items: list[tuple[bytes, bytes]]) -> tuple[list[bytes], int]:
    if len(items) > _THREAD_ITEMS:
        return await asyncio.to_thread(key.seal_many, items)
    return key.seal_many(items)


class Open(MessageCall[OpenItem]):
    """POST /v1/keys/{key}/open"""

    action: ClassVar[str] = "open"
    codec = OPEN

    def raw_now(self, key: Key, headers: Headers, taken: bytes) -> Answer | None:
        aad = aad_of(headers)
        try:
            return *key.open(taken, aad), True
        except DoesNotOpen:
            if key.may_be_newer(taken):
                return None
            raise

    async def raw(self, key: Key, headers: Headers, taken: bytes | None, body: Body | None) -> Answer:
        message = await self.content(taken, body)
        return *await self._open(key, message, aad_of(headers)), True

    async def _open(self, key: Key, message: bytes, aad: bytes) -> tuple[bytes, int]:
        try:
            return await maybe_in_thread(len(message), key.open, message, aad)
        except DoesNotOpen:
            # It may be sealed under a version that another worker made a moment ago.
            if not key.may_be_newer(message):
                raise
        key = await self._runtime.keyring.newer(key)
        return await maybe_in_thread(len(message), key.open, message, aad)

    def one_now(self, key: Key, item: OpenItem) -> tuple[Struct, int | None] | None:
        if len(item.sealed) >= THREAD_OCTETS:
            return None
        try:
            plaintext, version = key.open(item.sealed, item.aad or b"")
        except DoesNotOpen:
            if key.may_be_newer(item.sealed):
                return None
            raise
        return OpenAnswer(plaintext, version), version

    async def one(self, key: Key, item: OpenItem) -> tuple[Struct, int | None]:
        plaintext, version = await self._open(key, item.sealed, item.aad or b"")
        return OpenAnswer(plaintext, version), version

    async def many(self, key: Key, items: list[OpenItem | Problem]) -> list[Struct]:
        if any(key.may_be_newer(item.sealed) for item in items if isinstance(item, OpenItem)):
            key = await self._runtime.keyring.newer(key)

        def serve(item: OpenItem) -> Struct:
            plaintext, version = key.open(item.sealed, item.aad or b"")
            return OpenAnswer(plaintext, version)

        if len(items) > _THREAD_ITEMS:
            return await asyncio.to_thread(each, serve, items)
        return each(serve, items)
