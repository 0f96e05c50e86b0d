"""The client for threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from service.client import calls
from service.client.calls import BytesLike, Call, Data, Item
from service.client.errors import ServiceError
from service.client.results import EngineInfo, Grant, Key, Mac, NewToken, Opened, Sealed, Token

T = TypeVar("T")

# A MAC's data may be of any length, so each pause is limited and not the whole.
TIMEOUT = httpx.Timeout(30.0, connect=5.0)
PAGE = 100


class Client:
    """Calls the service at `url` with `token`. Keeps connections; close it, or use it as a context manager.

    `transport` is httpx's, for tests and for proxies of one's own.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: httpx.Timeout | float = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"authorization": f"Bearer {token}", "user-agent": "sealane-client"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def seal(self, key: str, plaintext: BytesLike, aad: BytesLike = b"") -> Sealed:
        """Seal a plaintext under the current version of `key`. To open it the same `aad` is needed."""
        return self._send(calls.seal(key, plaintext, aad))

    def open(self, key: str, message: BytesLike, aad: BytesLike = b"") -> Opened:
        """Open a sealed message. DoesNotOpen if key, AAD or message are not the ones that were sealed."""
        return self._send(calls.open(key, message, aad))

    def mac(self, key: str, data: Data) -> Mac:
        """The MAC of `data`, of any length, sent as it is read."""
        return self._send(calls.mac(key, _body(data)))

    def verify(self, key: str, mac: BytesLike, data: Data) -> bool:
        """Whether `mac` is a MAC of `data` under `key`."""
        return self._send(calls.verify(key, mac, _body(data)))

    def seal_many(self, key: str, items: Iterable[Item]) -> list[Sealed | ServiceError]:
        """Seal many in one call. An item that fails has its error in its place."""
        return self._send(calls.seal_many(key, items))

    def open_many(self, key: str, items: Iterable[Item]) -> list[Opened | ServiceError]:
        """Open many in one call. An item that fails has its error in its place."""
        return self._send(calls.open_many(key, items))

    def mac_many(self, key: str, messages: Iterable[BytesLike]) -> list[Mac | ServiceError]:
        """MAC many messages in one call. An item that fails has its error in its place."""
        return self._send(calls.mac_many(key, messages))

    def verify_many(self, key: str, items: Iterable[tuple[BytesLike, BytesLike]]) -> list[bool | ServiceError]:
        """Verify many (message, MAC) pairs in one call. An item that fails has its error in its place."""
        return self._send(calls.verify_many(key, items))

    def create_key(self, key: str, type: str = "xchacha20-poly1305") -> Key:
        """Create a key. KeyExists if there is one of this name."""
        return self._send(calls.create_key(key, type))

    def describe_key(self, key: str) -> Key:
        """A key's type, state and versions."""
        return self._send(calls.describe_key(key))

    def list_keys(self, prefix: str = "") -> Iterator[Key]:
        """All keys that the token may list and whose names begin with `prefix`, in order, a page at a time."""
        after: str | None = ""
        while after is not None:
            page = self._send(calls.list_keys(prefix, after, PAGE))
            yield from page.keys
            after = page.next

    def rotate_key(self, key: str) -> Key:
        """Add a version, which new seals and MACs use."""
        return self._send(calls.rotate_key(key))

    def delete_key(self, key: str) -> Key:
        """Take a key out of use, to be destroyed at its `delete_at`."""
        return self._send(calls.delete_key(key))

    def undelete_key(self, key: str) -> Key:
        """Put a key back into use whose deletion is not due yet."""
        return self._send(calls.undelete_key(key))

    def create_token(self, name: str, grants: Iterable[Grant], expires_at: datetime | None = None) -> NewToken:
        """Create a token, shown this once. `expires_at` needs a time zone."""
        return self._send(calls.create_token(name, grants, expires_at))

    def list_tokens(self) -> list[Token]:
        """All tokens, oldest first, the revoked and expired among them."""
        return self._send(calls.list_tokens())

    def revoke_token(self, token_id: str) -> None:
        """Refuse a token from now on."""
        self._send(calls.revoke_token(token_id))

    def engine(self) -> EngineInfo:
        """Which code computes at the service."""
        return self._send(calls.engine())

    def _send(self, call: Call[T]) -> T:
        response = self._http.request(
            call.method, call.path, headers=call.headers, params=call.parameters or None, content=call.content
        )
        return call.result(response)


def _body(data: Data) -> Any:
    # As a body in one piece httpx takes bytes, not everything that is like them.
    return bytes(data) if isinstance(data, (bytearray, memoryview)) else data
