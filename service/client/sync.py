"""The client for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Literal, Self, TypeVar

import httpx
from tenacity import Retrying

from service.client import calls
from service.client.calls import Call, Item
from service.client.data import BytesLike, Data, pieces, size_of
from service.client.errors import ServiceError
from service.client.results import EngineInfo, Grant, Key, Mac, NewToken, Opened, Sealed, Token
from service.client.streams import Stream
from service.client.uploads import PATIENCE, Upload

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

    def seal_stream(self, key: str, data: Data, aad: BytesLike = b"") -> Stream:
        """Seal data of any length, in constant memory: iterate over the result for the sealed stream.

        httpx sends all of `data` before it reads: what is sealed meanwhile waits on the service's disk.
        """
        content, size = _content(data)
        return self._stream(calls.seal_stream(key, content, size, aad))

    def open_stream(
        self, key: str, data: Data, aad: BytesLike = b"", *, release: Literal["chunk"] | None = None
    ) -> Stream:
        """Open a sealed stream: iterate over the result for the plaintext, in constant memory.

        Nothing is released before all has verified, or DoesNotOpen. With `release="chunk"` verified chunks of 16 KiB
        are, and if a later one does not verify the iteration ends in an `httpx.TransportError`: what came is genuine,
        but only the beginning of something.
        """
        content, size = _content(data)
        return self._stream(calls.open_stream(key, content, size, aad, release))

    def mac(self, key: str, data: Data) -> Mac:
        """The MAC of `data`, of any length, sent as it is read, in one request."""
        content, size = _content(data)
        return self._send(calls.mac(key, content, size))

    def verify(self, key: str, mac: BytesLike, data: Data) -> bool:
        """Whether `mac` is a MAC of `data` under `key`."""
        content, size = _content(data)
        return self._send(calls.verify(key, mac, content, size))

    def mac_upload(
        self,
        key: str,
        data: Data,
        *,
        resume: str | None = None,
        started: Callable[[str], object] | None = None,
        progress: Callable[[int], object] | None = None,
        patience: float = PATIENCE,
    ) -> Mac:
        """The MAC of `data`, of any length, over an upload that survives broken connections and dying workers.

        Sent in requests of 16 MiB, each of which is kept in memory until the service has it: when one fails, the
        service is asked how far it came, and gets the rest, until for `patience` seconds nothing gets through. Then
        the last error is raised. `started` learns the upload's ID, and `resume` is the ID of one that an earlier
        call, perhaps in another process, left behind: `data` is then the same data from its beginning. `progress`
        learns how many bytes are sent.
        """
        upload = Upload(calls.begin_upload(key, None), resume, started, progress, patience)
        self._upload(upload, data)
        return upload.mac

    def verify_upload(
        self,
        key: str,
        mac: BytesLike,
        data: Data,
        *,
        resume: str | None = None,
        started: Callable[[str], object] | None = None,
        progress: Callable[[int], object] | None = None,
        patience: float = PATIENCE,
    ) -> bool:
        """Whether `mac` is a MAC of `data` under `key`, over an upload as `mac_upload` has it."""
        upload = Upload(calls.begin_upload(key, mac), resume, started, progress, patience)
        self._upload(upload, data)
        return upload.valid

    def abandon_upload(self, upload_id: str) -> None:
        """Destroy what the service keeps of an upload."""
        self._send(calls.abandon_upload(upload_id))

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

    def _stream(self, call: Call[int]) -> Stream:
        request = self._http.build_request(
            call.method, call.path, headers=call.headers, params=call.parameters or None, content=call.content
        )
        response = self._http.send(request, stream=True)
        try:
            if not response.is_success:
                response.read()
            version = call.result(response)
        except BaseException:
            response.close()
            raise
        return Stream(response, version)

    def _upload(self, upload: Upload, data: Data) -> None:
        parts = None
        for attempt in Retrying(**upload.policy):
            with attempt:
                if upload.id is None:
                    upload.begun(self._send(upload.begin))
                else:
                    upload.found(self._send(calls.ask_upload(upload.id)))
                while not upload.state.complete:
                    if upload.wants_data:
                        # Only now it is certain where to begin.
                        parts = parts or pieces(data, upload.state.offset)
                        for part in parts:
                            if upload.add(part):
                                break
                        else:
                            upload.end()
                    content = upload.rest()
                    upload.appended(self._send(upload.append(content)))


def _content(data: Data) -> tuple[Iterator[bytes], int | None]:
    return pieces(data), size_of(data)
