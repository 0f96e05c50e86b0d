"""MACs over uploads that pause and resume, on any worker.

What must never happen is two tags under one nonce: they give the one-time key away. So an upload's state lies in one
row of the storage. A request that goes on from it claims the row first, and may write only while its claim stands; a
later claim ends an earlier one. The tag leaves only after a transaction in which the claim still stood, the offset was
what this request had left there, and the state was destroyed. docs/decisions.md says what that does not cover.
"""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic
from typing import Final

from service.errors import KeyNotFound, UploadNotFound
from service.follower import Follower
from service.keyring import Key, Keyring
from service.keys import Mac, Verifier
from service.master import MasterKey
from service.settings import Settings
from service.storage import Database, MacStreamRow
from service.upload import Checkpoints, Upload
from service.upload_rows import Allowed, Progress, UploadRows

_SWEEP_SECONDS: Final = 60.0
_PATIENCE = 5.0


class Uploads:
    """All uploads of the installation, and those that requests of this worker hold at the moment."""

    def __init__(
        self, database: Database, master: MasterKey, keyring: Keyring, follower: Follower, settings: Settings
    ) -> None:
        self._database = database
        self._keyring = keyring
        self._rows = UploadRows(database, master, keyring, settings)
        self.checkpoints = Checkpoints(
            database, self._rows, settings.upload_checkpoint_bytes, settings.upload_checkpoint_seconds
        )
        self._held: dict[str, Upload] = {}
        self._swept = monotonic()
        follower.add_chore(self._sweep)

    async def create(
        self, key: Key, mac: bytes | None = None, length: int | None = None, *, claimed: bool = True
    ) -> Upload:
        """A new upload under the key's current version; with `mac`, one that verifies it. `length`: bytes, if they are
        known. Not `claimed`: the request has nothing to append.

        WrongKeyType, KeyDeleted, Malformed, TooMany, StorageUnavailable.
        """
        sum = key.mac_start() if mac is None else key.verify_start(mac)
        row = self._rows.new(key, sum, length, claimed)
        await self._database.call(self._rows.insert, row, sum.export_state())
        return self._hold(row, sum) if claimed else self._upload(row, sum)

    async def claim(self, id: str, offset: int, length: int | None, allowed: Allowed) -> Upload:
        """The upload, for this request to go on with at `offset`; whoever held it holds it no more. `length`: bytes in
        all, if the request says so.

        UploadNotFound, UploadGone, UploadOffset, UploadCompleted, UploadLength, KeyDeleted, StorageUnavailable.
        """
        try:
            row, sum = await self._database.call(self._rows.claim, id, offset, length, allowed)
        except KeyNotFound:
            # Its key, or the version, may be one that another worker made a moment ago.
            await self._keyring.refresh()
            try:
                row, sum = await self._database.call(self._rows.claim, id, offset, length, allowed)
            except KeyNotFound:
                raise UploadNotFound from None
        before = self._held.get(id)
        if before is not None:
            before.supersede()
        return self._hold(row, sum)

    async def ask(self, id: str, allowed: Allowed) -> Progress:
        """How far it is. Whoever held it holds it no more, so that the answer stays true. UploadNotFound, UploadGone,
        StorageUnavailable."""
        await self._interrupt(id)
        return await self._database.call(self._rows.ask, id, allowed)

    async def abandon(self, id: str, allowed: Allowed) -> Progress:
        """Destroys it; how far it was. UploadNotFound, StorageUnavailable."""
        await self._interrupt(id)
        return await self._database.call(self._rows.abandon, id, allowed)

    def drain(self, seconds: float) -> None:
        """Write all down now, and in `seconds` end the requests that still hold one. In the loop."""
        for upload in self._held.values():
            upload.write_soon()
        asyncio.get_running_loop().call_later(seconds, self._end_all)

    async def stop(self) -> None:
        """Returns when no request holds one any more, or after a while."""
        self._end_all()
        waits = [upload.ended.wait() for upload in self._held.values()]
        if waits:
            await asyncio.wait([asyncio.ensure_future(wait) for wait in waits], timeout=_PATIENCE)

    def _end_all(self) -> None:
        for upload in list(self._held.values()):
            upload.interrupt(draining=True)

    async def _interrupt(self, id: str) -> None:
        held = self._held.get(id)
        if held is not None:
            held.interrupt()
            # One that does not end, because the storage hangs, loses its claim all the same.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await held.ended.wait()

    def _hold(self, row: MacStreamRow, sum: Mac | Verifier) -> Upload:
        upload = self._held[row.id] = self._upload(row, sum)
        return upload

    def _upload(self, row: MacStreamRow, sum: Mac | Verifier) -> Upload:
        return Upload(self.checkpoints, row, sum, self._release)

    def _release(self, upload: Upload) -> None:
        if self._held.get(upload.id) is upload:
            del self._held[upload.id]

    async def _sweep(self) -> None:
        """Destroys what has expired. Every worker does it now and then."""
        if monotonic() - self._swept < _SWEEP_SECONDS:
            return
        self._swept = monotonic()
        if await self._database.call(self._rows.remove_expired) or self._rows.changed:
            self._rows.changed = False
            await self._database.call(self._database.truncate_log)
