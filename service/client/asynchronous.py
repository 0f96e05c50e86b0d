"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from datetime import datetime
from types import TracebackType
from typing import IO, Any, Self, TypeVar

import httpx

from service.client import calls
from service.client.calls import AsyncData, BytesLike, Call, Item
from service.client.errors import ServiceError
from service.client.results import EngineInfo, Grant, Key, Mac, NewToken, Opened, Sealed, Token
from service.client.sync import PAGE, TIMEOUT

T = TypeVar("T")

_CHUNK = 256 << 10  # bytes read from a file in one go, in a thread


class AsyncClient:
    """Calls the service at `url` with `token`. Keeps connections; close it, or use it as a context manager.

    `transport` is httpx's, for tests and for proxies of one's own.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: httpx.Timeout | float = TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {"authorization": f"Bearer {token}", "user-agent": "sealane-client"}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def seal(self, key: str, plaintext: BytesLike, aad: BytesLike = b"") -> Sealed:
        """Seal a plaintext under the current version of `key`. To open it the same `aad` is needed."""
        return await self._send(calls.seal(key, plaintext, aad))

    async def open(self, key: str, message: BytesLike, aad: BytesLike = b"") -> Opened:
        """Open a sealed message. DoesNotOpen if key, AAD or message are not the ones that were sealed."""
        return await self._send(calls.open(key, message, aad))

    async def mac(self, key: str, data: AsyncData) -> Mac:
        """The MAC of `data`, of any length, sent as it is read."""
        return await self._send(calls.mac(key, _body(data)))

    async def verify(self, key: str, mac: BytesLike, data: AsyncData) -> bool:
        """Whether `mac` is a MAC of `data` under `key`."""
        return await self._send(calls.verify(key, mac, _body(data)))

    async def seal_many(self, key: str, items: Iterable[Item]) -> list[Sealed | ServiceError]:
        """Seal many in one call. An item that fails has its error in its place."""
        return await self._send(calls.seal_many(key, items))

    async def open_many(self, key: str, items: Iterable[Item]) -> list[Opened | ServiceError]:
        """Open many in one call. An item that fails has its error in its place."""
        return await self._send(calls.open_many(key, items))

    async def mac_many(self, key: str, messages: Iterable[BytesLike]) -> list[Mac | ServiceError]:
        """MAC many messages in one call. An item that fails has its error in its place."""
        return await self._send(calls.mac_many(key, messages))

    async def verify_many(self, key: str, items: Iterable[tuple[BytesLike, BytesLike]]) -> list[bool | ServiceError]:
        """Verify many (message, MAC) pairs in one call. An item that fails has its error in its place."""
        return await self._send(calls.verify_many(key, items))

    async def create_key(self, key: str, type: str = "xchacha20-poly1305") -> Key:
        """Create a key. KeyExists if there is one of this name."""
        return await self._send(calls.create_key(key, type))

    async def describe_key(self, key: str) -> Key:
        """A key's type, state and versions."""
        return await self._send(calls.describe_key(key))

    async def list_keys(self, prefix: str = "") -> AsyncIterator[Key]:
        """All keys that the token may list and whose names begin with `prefix`, in order, a page at a time."""
        after: str | None = ""
        while after is not None:
            page = await self._send(calls.list_keys(prefix, after, PAGE))
            for key in page.keys:
                yield key
            after = page.next

    async def rotate_key(self, key: str) -> Key:
        """Add a version, which new seals and MACs use."""
        return await self._send(calls.rotate_key(key))

    async def delete_key(self, key: str) -> Key:
        """Take a key out of use, to be destroyed at its `delete_at`."""
        return await self._send(calls.delete_key(key))

    async def undelete_key(self, key: str) -> Key:
        """Put a key back into use whose deletion is not due yet."""
        return await self._send(calls.undelete_key(key))

    async def create_token(self, name: str, grants: Iterable[Grant], expires_at: datetime | None = None) -> NewToken:
        """Create a token, shown this once. `expires_at` needs a time zone."""
        return await self._send(calls.create_token(name, grants, expires_at))

    async def list_tokens(self) -> list[Token]:
        """All tokens, oldest first, the revoked and expired among them."""
        return await self._send(calls.list_tokens())

    async def revoke_token(self, token_id: str) -> None:
        """Refuse a token from now on."""
        await self._send(calls.revoke_token(token_id))

    async def engine(self) -> EngineInfo:
        """Which code computes at the service."""
        return await self._send(calls.engine())

    async def _send(self, call: Call[T]) -> T:
        response = await self._http.request(
            call.method, call.path, headers=call.headers, params=call.parameters or None, content=call.content
        )
        return call.result(response)


def _body(data: AsyncData) -> Any:
    """`data` as httpx takes it here: bytes, or an asynchronous iterator."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, AsyncIterable):
        return data
    return _pieces(data)


async def _pieces(data: Iterable[bytes] | IO[bytes]) -> AsyncIterator[bytes]:
    if isinstance(data, Iterable) and not hasattr(data, "read"):
        for piece in data:
            yield piece
        return
    while chunk := await asyncio.to_thread(data.read, _CHUNK):
        yield chunk
