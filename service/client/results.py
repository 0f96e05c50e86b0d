"""What calls return."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Sealed(Struct, frozen=True):
    """A sealed message, and the version of the key that sealed it."""

    message: bytes
    key_version: int


class Opened(Struct, frozen=True):
    """A plaintext, and the version of the key that had sealed it."""

    plaintext: bytes
    key_version: int


class Mac(Struct, frozen=True):
    """A MAC of 48 bytes, and the version of the key that made it."""

    mac: bytes
    key_version: int


class Begun(Struct, frozen=True):
    """An upload that was begun: its ID, by which any client may go on with it, and the version of its key."""

    id: str
    key_version: int


class UploadState(Struct, frozen=True):
    """How many bytes an upload has; of a complete one the MAC, or whether it verified."""

    offset: int
    complete: bool
    mac: bytes | None
    valid: bool | None


class KeyVersion(Struct, frozen=True):
    """One version of a key."""

    version: int
    created_at: datetime


class Key(Struct, frozen=True):
    """What may be told of a key. `state`: active, pending-deletion or destroyed; `delete_at` when it is scheduled."""

    name: str
    type: str
    state: str
    current_version: int
    versions: list[KeyVersion]
    created_at: datetime
    delete_at: datetime | None = None


class KeyPage(Struct, frozen=True):
    """Some keys, and the name after which the next page begins."""

    keys: list[Key]
    next: str | None = None


class Grant(Struct, frozen=True):
    """Actions on the keys whose names match the pattern `keys`, in which `*` stands for any characters."""

    actions: list[str]
    keys: str = "*"


class Token(Struct, frozen=True):
    """What is known of a token; never the token."""

    id: str
    name: str
    grants: list[Grant]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class NewToken(Token, frozen=True, kw_only=True):
    """A token, shown this once."""

    token: str


class TokenList(Struct, frozen=True):
    """All tokens."""

    tokens: list[Token]


class EngineInfo(Struct, frozen=True):
    """Which code computes at the service, on what."""

    backend: str
    kernel: str
    kernels: list[str]
    backends: list[str]
    cpu_features: list[str]
    selftest: dict[str, str]
