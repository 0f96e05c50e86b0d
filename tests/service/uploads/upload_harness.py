"""Uploads as a request makes them, without HTTP."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import text

from service.core import Core
from service.keyring import Key
from service.upload import Upload
from service.upload_rows import Progress

KEY = "sums"


def anything(action: str, key_name: str) -> bool:
    return True


class Pieces:
    """A body that comes in these pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)

    async def piece(self) -> bytes | None:
        return next(self._pieces, None)


class Broken(Exception):
    """The connection went away."""


class BreaksOff(Pieces):
    async def piece(self) -> bytes | None:
        piece = await super().piece()
        if piece is None:
            raise Broken
        return piece


async def mac_key(core: Core) -> Key:
    await core.keyring.create(KEY, "poly1305-xchacha20", actor="test")
    return core.keyring.get(KEY)


async def begin(core: Core, **more: object) -> str:
    """A new upload that nobody holds; its id."""
    return (await core.uploads.create(core.keyring.get(KEY), claimed=False, **more)).id  # type: ignore[arg-type]


async def take(core: Core, id: str, offset: int, length: int | None = None) -> Upload:
    return await core.uploads.claim(id, offset, length, anything)


async def append(core: Core, id: str, offset: int, *pieces: bytes) -> Progress:
    upload = await take(core, id, offset)
    try:
        await upload.read(Pieces(pieces))
        await upload.pause()
        return upload.progress
    finally:
        upload.close()


async def finish(core: Core, id: str, offset: int, *pieces: bytes) -> Progress:
    upload = await take(core, id, offset)
    try:
        await upload.read(Pieces(pieces))
        return await upload.finish()
    finally:
        upload.close()


async def ask(core: Core, id: str) -> Progress:
    return await core.uploads.ask(id, anything)


def verifies(core: Core, mac: object, message: bytes) -> bool:
    assert isinstance(mac, bytes)
    verifier = core.keyring.get(KEY).verify_start(mac)
    verifier.update(message)
    return verifier.finish()


def execute(core: Core, statement: str, **values: object) -> None:
    with core.database.write() as session:
        session.execute(text(statement), values)
