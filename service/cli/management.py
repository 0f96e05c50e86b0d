"""Keys and tokens for commands: through a running service, or straight on its storage.

With SEALANE_URL set, commands are a client of that service, with the token in SEALANE_TOKEN and its grants. Without,
they work on the storage that SEALANE_DATABASE_URL and SEALANE_MASTER_KEY_FILE name, as `sealane init` does: that needs
no token and no running service, and is how the first token is made and a lost one replaced. Either way each change is
in the audit trail, and in force on every worker within a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from service.cli import configured
from service.cli.connection import connected

if TYPE_CHECKING:
    from datetime import datetime

    from service.client import Grant, Key, NewToken, Token


class Management(Protocol):
    """What both ways offer; `Client` has exactly these."""

    def create_key(self, key: str, type: str) -> Key: ...
    def describe_key(self, key: str) -> Key: ...
    def list_keys(self, prefix: str = "") -> Iterator[Key]: ...
    def rotate_key(self, key: str) -> Key: ...
    def delete_key(self, key: str) -> Key: ...
    def undelete_key(self, key: str) -> Key: ...
    def create_token(self, name: str, grants: Iterable[Grant], expires_at: datetime | None = None) -> NewToken: ...
    def list_tokens(self) -> list[Token]: ...
    def revoke_token(self, token_id: str) -> None: ...


@contextmanager
def management(dev: bool = False) -> Iterator[Management]:
    """The service at SEALANE_URL if that is set and `dev` is not, else the storage."""
    url = os.environ.get("SEALANE_URL")
    if url and not dev:
        with connected() as client:
            yield client
    else:
        from service.cli.storage import OnStorage

        yield OnStorage(configured.load(dev))
