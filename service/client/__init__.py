"""A typed client of the service, sync and async, over httpx.

    with Client("http://127.0.0.1:8417", token) as client:
        sealed = client.seal("demo", b"attack at dawn", aad=b"order 66")
        opened = client.open("demo", sealed.message, aad=b"order 66")
        with open("big", "rb") as file, client.seal_stream("demo", file) as stream:
            for piece in stream:
                ...
        mac = client.mac_upload("demo-mac", open("big", "rb"))  # goes on by itself after a broken connection

Every error answer of the service is raised as a `ServiceError` or one of its subclasses, and a service that can't be
reached as an `httpx.TransportError`.
"""

from service.client.asynchronous import AsyncClient
from service.client.errors import (
    DoesNotOpen,
    KeyDeleted,
    KeyExists,
    KeyNotFound,
    LimitReached,
    Malformed,
    NotAllowed,
    NotAuthenticated,
    ServiceError,
    TooLarge,
    UploadGone,
    UploadNotFound,
    WrongKeyType,
)
from service.client.results import EngineInfo, Grant, Key, KeyVersion, Mac, NewToken, Opened, Sealed, Token
from service.client.streams import AsyncStream, Stream
from service.client.sync import Client

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "Client",
    "DoesNotOpen",
    "EngineInfo",
    "Grant",
    "Key",
    "KeyDeleted",
    "KeyExists",
    "KeyNotFound",
    "KeyVersion",
    "LimitReached",
    "Mac",
    "Malformed",
    "NewToken",
    "NotAllowed",
    "NotAuthenticated",
    "Opened",
    "Sealed",
    "ServiceError",
    "Stream",
    "Token",
    "TooLarge",
    "UploadGone",
    "UploadNotFound",
    "WrongKeyType",
]
