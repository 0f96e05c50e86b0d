"""Every call of the service as a value: what to send, and how to read the answer. Sync and async differ only in how
they send it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from service.client.data import BytesLike
from service.client.errors import ServiceError
from service.client.results import (
    Begun,
    EngineInfo,
    Grant,
    Key,
    KeyPage,
    Mac,
    NewToken,
    Opened,
    Sealed,
    Token,
    TokenList,
    UploadState,
)

T = TypeVar("T")

_OCTETS = "application/octet-stream"
_JSON = "application/json"

#: An item of a batch: a plaintext or a sealed message, alone or in a tuple with its AAD.
Item: TypeAlias = BytesLike | tuple[BytesLike, BytesLike]


@dataclass(frozen=True)
class Call(Generic[T]):
    """One HTTP call. `read` makes the result of an answer with a 2xx status."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    content: Any = None

    def result(self, response: httpx.Response) -> T:
        """The result; raises the ServiceError that the answer holds."""
        if response.is_success:
            return self.read(response)
        raise ServiceError.from_response(response)


def seal(key: str, plaintext: BytesLike, aad: BytesLike) -> Call[Sealed]:
    def read(response: httpx.Response) -> Sealed:
        return Sealed(response.content, _version(response))

    return Call("POST", _path(key, "seal"), read, _octets(aad), content=bytes(plaintext))


def open(key: str, message: BytesLike, aad: BytesLike) -> Call[Opened]:
    def read(response: httpx.Response) -> Opened:
        return Opened(response.content, _version(response))

    return Call("POST", _path(key, "open"), read, _octets(aad), content=bytes(message))


def seal_stream(key: str, content: Any, size: int | None, aad: BytesLike) -> Call[int]:
    """Read before the answer's body: the key version."""
    return Call("POST", _path(key, "seal-stream"), _version, _octets(aad) | _length(size), content=content)


def open_stream(key: str, content: Any, size: int | None, aad: BytesLike, release: str | None) -> Call[int]:
    """Read before the answer's body: the key version."""
    parameters = {} if release is None else {"release": release}
    headers = _octets(aad) | _length(size)
    return Call("POST", _path(key, "open-stream"), _version, headers, parameters, content)


def mac(key: str, content: Any, size: int | None) -> Call[Mac]:
    def read(response: httpx.Response) -> Mac:
        return Mac(response.content, _version(response))

    return Call("POST", _path(key, "mac"), read, _octets(b"") | _length(size), content=content)


def verify(key: str, mac: BytesLike, content: Any, size: int | None) -> Call[bool]:
    headers = {"content-type": _OCTETS, "accept": _JSON, "sealane-mac": _base64(mac)} | _length(size)

    def read(response: httpx.Response) -> bool:
        return _is_valid(msgspec.json.decode(response.content))

    return Call("POST", _path(key, "verify"), read, headers, content=content)


def seal_many(key: str, items: Iterable[Item]) -> Call[list[Sealed | ServiceError]]:
    return _batch(
        key, "seal", _with_aad("plaintext", items), lambda a: Sealed(b64decode(a["sealed"]), a["key_version"])
    )


def open_many(key: str, items: Iterable[Item]) -> Call[list[Opened | ServiceError]]:
    return _batch(
        key, "open", _with_aad("sealed", items), lambda a: Opened(b64decode(a["plaintext"]), a["key_version"])
    )


def mac_many(key: str, messages: Iterable[BytesLike]) -> Call[list[Mac | ServiceError]]:
    items = [{"message": _base64(message)} for message in messages]
    return _batch(key, "mac", items, lambda a: Mac(b64decode(a["mac"]), a["key_version"]))


def verify_many(key: str, items: Iterable[tuple[BytesLike, BytesLike]]) -> Call[list[bool | ServiceError]]:
    records = [{"message": _base64(message), "mac": _base64(mac)} for message, mac in items]
    return _batch(key, "verify", records, _is_valid)


def begin_upload(key: str, mac: BytesLike | None) -> Call[Begun]:
    headers = {"accept": _JSON} | ({} if mac is None else {"sealane-mac": _base64(mac)})

    def read(response: httpx.Response) -> Begun:
        return msgspec.json.decode(response.content, type=Begun)

    return Call("POST", _path(key, "mac-streams"), read, headers)


def append_upload(upload_id: str, offset: int, content: Any, size: int, last: bool) -> Call[UploadState]:
    headers = {
        "content-type": "application/partial-upload",
        "content-length": str(size),
        "upload-offset": str(offset),
        "upload-complete": "?1" if last else "?0",
    }
    return Call("PATCH", _upload_path(upload_id), _upload_state, headers, content=content)


def ask_upload(upload_id: str) -> Call[UploadState]:
    return Call("HEAD", _upload_path(upload_id), _upload_state)


def abandon_upload(upload_id: str) -> Call[None]:
    return Call("DELETE", _upload_path(upload_id), lambda response: None)


def create_key(key: str, type: str) -> Call[Key]:
    return _json_call("POST", _path(key), Key, {"type": type})


def describe_key(key: str) -> Call[Key]:
    return _json_call("GET", _path(key), Key)


def list_keys(prefix: str, after: str, limit: int) -> Call[KeyPage]:
    return _json_call("GET", "/v1/keys", KeyPage, parameters={"prefix": prefix, "after": after, "limit": limit})


def rotate_key(key: str) -> Call[Key]:
    return _json_call("POST", _path(key, "rotate"), Key)


def delete_key(key: str) -> Call[Key]:
    return _json_call("DELETE", _path(key), Key)


def undelete_key(key: str) -> Call[Key]:
    return _json_call("POST", _path(key, "undelete"), Key)


def create_token(name: str, grants: Iterable[Grant], expires_at: datetime | None) -> Call[NewToken]:
    return _json_call("POST", "/v1/tokens", NewToken, {"name": name, "grants": list(grants), "expires_at": expires_at})


def list_tokens() -> Call[list[Token]]:
    def read(response: httpx.Response) -> list[Token]:
        return msgspec.json.decode(response.content, type=TokenList).tokens

    return Call("GET", "/v1/tokens", read, {"accept": _JSON})


def revoke_token(token_id: str) -> Call[None]:
    return Call("DELETE", f"/v1/tokens/{quote(token_id, safe='')}", lambda response: None, {"accept": _JSON})


def engine() -> Call[EngineInfo]:
    return _json_call("GET", "/v1/engine", EngineInfo)


def _json_call(
    method: str, path: str, result: type[T], body: object = None, parameters: Mapping[str, str | int] | None = None
) -> Call[T]:
    def read(response: httpx.Response) -> T:
        return msgspec.json.decode(response.content, type=result)

    headers = {"accept": _JSON} | ({} if body is None else {"content-type": _JSON})
    content = None if body is None else msgspec.json.encode(body)
    return Call(method, path, read, headers, parameters or {}, content)


def _batch(
    key: str, action: str, items: list[dict[str, str]], result: Callable[[Mapping[str, Any]], T]
) -> Call[list[T | ServiceError]]:
    def read(response: httpx.Response) -> list[T | ServiceError]:
        answers = msgspec.json.decode(response.content, type=dict[str, list[dict[str, Any]]])["results"]
        return [ServiceError.of(answer["problem"]) if "problem" in answer else result(answer) for answer in answers]

    content = msgspec.json.encode({"items": items})
    return Call("POST", _path(key, action), read, {"content-type": _JSON, "accept": _JSON}, content=content)


def _with_aad(name: str, items: Iterable[Item]) -> list[dict[str, str]]:
    records = []
    for item in items:
        data, aad = item if isinstance(item, tuple) else (item, b"")
        records.append({name: _base64(data), "aad": _base64(aad)} if aad else {name: _base64(data)})
    return records


def _is_valid(answer: Mapping[str, Any]) -> bool:
    return answer["valid"] is True


def _octets(aad: BytesLike) -> dict[str, str]:
    headers = {"content-type": _OCTETS, "accept": _OCTETS}
    if aad:
        headers["sealane-aad"] = _base64(aad)
    return headers


def _base64(data: BytesLike) -> str:
    return b64encode(data).decode("ascii")


def _version(response: httpx.Response) -> int:
    return int(response.headers["sealane-key-version"])


def _length(size: int | None) -> dict[str, str]:
    # Otherwise httpx would take the length of a pipe, which is 0, or of a file that was read in part.
    return {} if size is None else {"content-length": str(size)}


def _upload_state(response: httpx.Response) -> UploadState:
    headers = response.headers
    mac, valid = headers.get("sealane-mac"), headers.get("sealane-valid")
    return UploadState(
        offset=int(headers["upload-offset"]),
        complete=headers.get("upload-complete") == "?1",
        mac=None if mac is None else b64decode(mac),
        valid=None if valid is None else valid == "?1",
    )


def _upload_path(upload_id: str) -> str:
    return f"/v1/mac-streams/{quote(upload_id, safe='')}"


def _path(key: str, action: str = "") -> str:
    return f"/v1/keys/{quote(key, safe='')}" + (f"/{action}" if action else "")
