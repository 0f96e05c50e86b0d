"""Keys and tokens straight on the storage, as an operator on the service's machine changes them."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from service import access, keyring
from service.client import Grant, Key, KeyVersion, NewToken, Token
from service.core import Core
from service.settings import Settings

T = TypeVar("T")


class OnStorage:
    """Works on the storage itself. SealaneError as the keyring and the tokens raise them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._actor = operator()

    def create_key(self, key: str, type: str) -> Key:
        return self._key(lambda core: core.keyring.create(key, type, actor=self._actor))

    def describe_key(self, key: str) -> Key:
        async def work(core: Core) -> keyring.KeyInfo:
            return core.keyring.describe(key)

        return self._key(work)

    def list_keys(self, prefix: str = "") -> Iterator[Key]:
        async def work(core: Core) -> list[keyring.KeyInfo]:
            found: list[keyring.KeyInfo] = []
            while page := core.keyring.list(prefix, after=found[-1].name if found else ""):
                found += page
            return found

        return map(_key, self._run(work))

    def rotate_key(self, key: str) -> Key:
        return self._key(lambda core: core.keyring.rotate(key, actor=self._actor))

    def delete_key(self, key: str) -> Key:
        return self._key(lambda core: core.keyring.schedule_deletion(key, actor=self._actor))

    def undelete_key(self, key: str) -> Key:
        return self._key(lambda core: core.keyring.undo_deletion(key, actor=self._actor))

    def create_token(self, name: str, grants: Iterable[Grant], expires_at: datetime | None = None) -> NewToken:
        wanted = [access.Grant(frozenset(grant.actions), grant.keys) for grant in grants]
        token, info = self._run(lambda core: core.access.create(name, wanted, expires_at, actor=self._actor))
        return NewToken(
            info.id, info.name, _grants(info), info.created_at, info.expires_at, info.revoked_at, token=token
        )

    def list_tokens(self) -> list[Token]:
        return [_token(info) for info in self._run(lambda core: core.access.list())]

    def revoke_token(self, token_id: str) -> None:
        self._run(lambda core: core.access.revoke(token_id, actor=self._actor))

    def _key(self, work: Callable[[Core], Awaitable[keyring.KeyInfo]]) -> Key:
        return _key(self._run(work))

    def _run(self, work: Callable[[Core], Awaitable[T]]) -> T:
        async def run() -> T:
            await core.start()
            try:
                return await work(core)
            finally:
                await core.stop()

        core = Core.open(self._settings)
        return asyncio.run(run())


def operator() -> str:
    """Who changes the storage, for the audit trail."""
    return f"operator:{_user()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


def _key(info: keyring.KeyInfo) -> Key:
    versions = [KeyVersion(version.version, version.created_at) for version in info.versions]
    return Key(info.name, info.type, info.state, info.current_version, versions, info.created_at, info.delete_at)


def _grants(info: access.TokenInfo) -> list[Grant]:
    return [Grant(sorted(grant.actions), grant.pattern) for grant in info.grants]


def _token(info: access.TokenInfo) -> Token:
    return Token(info.id, info.name, _grants(info), info.created_at, info.expires_at, info.revoked_at)
