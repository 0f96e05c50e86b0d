"""Seal and open: messages up to a limit, as JSON, as octets, and in batches."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from msgspec import Struct

from service.codecs import OPEN, SEAL, OpenAnswer, OpenItem, SealAnswer, SealItem, item_problem
from service.keyring import Key
from service.problems import Problem, too_large
from service.routes.calls import Answer, MessageCall, aad_of, each, maybe_in_thread
from service.wire import Body, Headers

# A batch of more than this is worth a thread: about a millisecond of sealing.
_THREAD_ITEMS = 1000


class Seal(MessageCall[SealItem]):
    """POST /v1/keys/{key}/seal"""

    action: ClassVar[str] = "seal"
    codec = SEAL

    async def raw(self, key: Key, headers: Headers, taken: bytes | None, body: Body) -> Answer:
        plaintext: bytes | list[bytes]
        if taken is None:
            plaintext = await body.whole(self._limit)
        else:
            plaintext = taken
            if len(taken) > self._limit:
                raise too_large(self._limit)
        if key.needs_lease(1):
            await self._runtime.keyring.ensure_lease(key, 1)
        sealed, version = await maybe_in_thread(body.size, key.seal, plaintext, aad_of(headers))
        return Answer(sealed, version, True)

    async def one(self, key: Key, item: SealItem) -> tuple[Struct, int | None]:
        if key.needs_lease(1):
            await self._runtime.keyring.ensure_lease(key, 1)
        sealed, version = await maybe_in_thread(len(item.plaintext), key.seal, item.plaintext, item.aad or b"")
        return SealAnswer(sealed, version), version

    async def many(self, key: Key, items: list[SealItem | Problem]) -> list[Struct]:
        good = [(item.plaintext, item.aad or b"") for item in items if not isinstance(item, Problem)]
        if good and key.needs_lease(len(good)):
            await self._runtime.keyring.ensure_lease(key, len(good))
        if len(good) > _THREAD_ITEMS:
            sealed, version = await asyncio.to_thread(key.seal_many, good)
        else:
            sealed, version = key.seal_many(good)
        if len(good) == len(items):
            return [SealAnswer(message, version) for message in sealed]
        messages = iter(sealed)
        return [
            item_problem(item) if isinstance(item, Problem) else SealAnswer(next(messages), version) for item in items
        ]


class Open(MessageCall[OpenItem]):
    """POST /v1/keys/{key}/open"""

    action: ClassVar[str] = "open"
    codec = OPEN

    async def raw(self, key: Key, headers: Headers, taken: bytes | None, body: Body) -> Answer:
        message = await self.content(taken, body)
        plaintext, version = await maybe_in_thread(len(message), key.open, message, aad_of(headers))
        return Answer(plaintext, version, True)

    async def one(self, key: Key, item: OpenItem) -> tuple[Struct, int | None]:
        plaintext, version = await maybe_in_thread(len(item.sealed), key.open, item.sealed, item.aad or b"")
        return OpenAnswer(plaintext, version), version

    async def many(self, key: Key, items: list[OpenItem | Problem]) -> list[Struct]:
        def serve(item: OpenItem) -> Struct:
            plaintext, version = key.open(item.sealed, item.aad or b"")
            return OpenAnswer(plaintext, version)

        if len(items) > _THREAD_ITEMS:
            return await asyncio.to_thread(each, serve, items)
        return each(serve, items)
