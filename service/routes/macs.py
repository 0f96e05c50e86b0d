"""MAC and verify: raw bodies of any length in constant memory, and JSON."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from msgspec import Struct

from service import keys
from service.codecs import MAC, VERIFY, MacAnswer, MacItem, VerifyAnswer, VerifyItem, encode
from service.keyring import Key
from service.problems import Problem, malformed
from service.routes.calls import Answer, MessageCall, base64_header, each
from service.wire import Body, Headers, accepts_octets

_THREAD_ITEMS = 1000


class Mac(MessageCall[MacItem]):
    """POST /v1/keys/{key}/mac"""

    action: ClassVar[str] = "mac"
    codec = MAC

    def raw_now(self, key: Key, headers: Headers, taken: bytes) -> Answer | None:
        mac = key.mac_start()
        mac.update(taken)
        return self._answer(mac, headers)

    async def raw(self, key: Key, headers: Headers, taken: bytes | None, body: Body | None) -> Answer:
        mac = key.mac_start()
        # A server hands over pieces of some hundred KiB at most: too short a while to be worth a thread.
        if body is None:
            mac.update(taken or b"")
        else:
            await body.chunks(mac.update)
        return self._answer(mac, headers)

    @staticmethod
    def _answer(mac: keys.Mac, headers: Headers) -> Answer:
        result = mac.finish()
        if accepts_octets(headers):
            return result, mac.version, True
        return encode(MacAnswer(result, mac.version)), mac.version, False

    async def one(self, key: Key, item: MacItem) -> tuple[Struct, int | None]:
        answer = _mac(key, item)
        return answer, answer.key_version

    async def many(self, key: Key, items: list[MacItem | Problem]) -> list[Struct]:
        key.mac_start()  # a key that does not MAC at all is the whole batch's problem

        def serve(item: MacItem) -> Struct:
            return _mac(key, item)

        if len(items) > _THREAD_ITEMS:
            return await asyncio.to_thread(each, serve, items)
        return each(serve, items)


class Verify(MessageCall[VerifyItem]):
    """POST /v1/keys/{key}/verify"""

    action: ClassVar[str] = "verify"
    codec = VERIFY

    async def raw(self, key: Key, headers: Headers, taken: bytes | None, body: Body | None) -> Answer:
        text = headers.get(b"sealane-mac")
        if text is None:
            raise malformed("wanted the MAC in base64 in the header Sealane-Mac")
        mac = base64_header("Sealane-Mac", text)
        verifier = (await self._newest(key, mac)).verify_start(mac)
        if body is None:
            verifier.update(taken or b"")
        else:
            await body.chunks(verifier.update)
        return encode(VerifyAnswer(verifier.finish())), None, False

    async def _newest(self, key: Key, *macs: bytes) -> Key:
        """The key, after a refresh if a MAC may be of a version that another worker made a moment ago."""
        if any(key.may_be_newer(mac) for mac in macs):
            return await self._runtime.keyring.newer(key)
        return key

    async def one(self, key: Key, item: VerifyItem) -> tuple[Struct, int | None]:
        return _verify(await self._newest(key, item.mac), item), None

    async def many(self, key: Key, items: list[VerifyItem | Problem]) -> list[Struct]:
        key = await self._newest(key, *(item.mac for item in items if isinstance(item, VerifyItem)))

        def serve(item: VerifyItem) -> Struct:
            return _verify(key, item)

        if len(items) > _THREAD_ITEMS:
            return await asyncio.to_thread(each, serve, items)
        return each(serve, items)


def _mac(key: Key, item: MacItem) -> MacAnswer:
    mac = key.mac_start()
    mac.update(item.message)
    return MacAnswer(mac.finish(), mac.version)


def _verify(key: Key, item: VerifyItem) -> VerifyAnswer:
    verifier = key.verify_start(item.mac)
    verifier.update(item.message)
    return VerifyAnswer(verifier.finish())
