"""Keeps what a worker holds in memory in step with the storage, by one small query each half second."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.errors import SealaneError, StorageUnavailable
from service.storage import Database, StateRow

_log = logging.getLogger("sealane.follower")

# Look-ups that miss ask the storage, so whoever guesses names or tokens makes at most this many queries a second: 20.
_MISS_INTERVAL = 0.05


class Follows(Protocol):
    """A part of the service that holds rows in memory."""

    def read(self, session: Session, since: int) -> Any:
        """The rows with a revision above `since`; in a thread."""

    def apply(self, rows: Any, *, whole: bool) -> None:
        """Takes them over; on the event loop. `whole`: they are all there is."""


class Follower:
    """Polls the revision; when it moved, reloads what changed. `fresh_until` is the hot path's one test."""

    def __init__(self, database: Database, *, interval: float = 0.5, max_staleness: float = 300) -> None:
        self._database = database
        self._interval = interval
        self._max_staleness = max_staleness
        self._parts: list[Follows] = []
        self._chores: list[Callable[[], Awaitable[None]]] = []
        self._early_chores: list[Callable[[], Awaitable[None]]] = []
        # All up to `_seen` is loaded; `_heard` is the highest revision met, this worker's own changes included.
        self._seen = 0
        self._heard = 0
        self._answered = 0.0
        self._fault: str | None = None
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self._last_started = 0.0
        self._poller: asyncio.Task[None] | None = None
        self.fresh_until = 0.0

    def add(self, part: Follows) -> None:
        self._parts.append(part)

    def add_chore(self, chore: Callable[[], Awaitable[None]], *, always: bool = False) -> None:
        """`chore` runs after each poll that succeeded (`always`: before each poll, also while the
        storage fails or hangs); its errors are logged."""
        (self._early_chores if always else self._chores).append(chore)

    def heard(self, revision: int) -> None:
        """This worker made a change with that revision, and applied it by itself."""
        self._heard = max(self._heard, revision)

    async def start(self) -> None:
        """Loads everything, then polls in the background. StorageUnavailable if the first load fails."""
        await self.refresh()
        self._poller = asyncio.create_task(self._poll(), name="sealane-follower")

    async def stop(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
            self._poller = None

    async def refresh(self) -> None:
        """Brings memory up to a moment after this call. StorageUnavailable.

        Callers share: all who come while one query runs wait for the next one, since the running one may have read
        before what they look for was committed.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._refresh_after(self._running))
            # Looked at here too, since every caller may have gone away by then.
            self._next.add_done_callback(_look_at)
        # Shielded: one caller that goes away must not take the query from the others.
        await asyncio.shield(self._next)

    @property
    def staleness_seconds(self) -> float:
        """Since the storage last answered."""
        return monotonic() - self._answered

    @property
    def degraded(self) -> bool:
        """Whether the storage fails or is silent, so that what is loaded serves on."""
        return self._fault is not None or self.staleness_seconds > 4 * self._interval + 1

    @property
    def fault(self) -> str | None:
        """What is wrong, for the operator."""
        if self._fault is None and self.degraded:
            return "the database does not answer"
        return self._fault

    def check_fresh(self) -> None:
        """StorageUnavailable if what is loaded is older than the limit, and so may not serve any more."""
        if monotonic() > self.fresh_until:
            raise StorageUnavailable(
                "the storage has not answered for longer than SEALANE_MAX_STALENESS, so nothing loaded serves any more"
            )

    async def _refresh_after(self, running: asyncio.Task[None] | None) -> None:
        if running is not None:
            await asyncio.wait([running])
        wait = self._last_started + _MISS_INTERVAL - monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        # From here on newcomers need another query: this one starts reading now.
        self._running, self._next = self._next, None
        self._last_started = monotonic()
        await self._load()

    async def _load(self) -> None:
        asked = monotonic()
        try:
            revision, whole, rows = await self._database.call(self._read)
        except SealaneError as error:
            if self._fault is None:
                _log.error("storage is lost: %s", error.detail)
            self._fault = error.detail
            raise
        for part, found in zip(self._parts, rows, strict=False):
            part.apply(found, whole=whole)
        if self._fault is not None:
            _log.warning("storage is back")
        self._seen = revision
        self._heard = revision if whole else max(self._heard, revision)
        self._fault = None
        # Counted from the question, not the answer: that is how old the answer may be.
        self._answered = asked
        self.fresh_until = asked + self._max_staleness

    def _read(self) -> tuple[int, bool, list[Any]]:
        # Before the question, so that what is committed meanwhile does not look like a database that went back.
        heard = self._heard
        with self._database.read() as session:
            revision = session.scalar(select(StateRow.revision).where(StateRow.id == 1))
            if revision is None:
                raise StorageUnavailable("the database is empty; run: sealane init")
            # A lower revision than before: the database was restored from a copy, so nothing held counts any more.
            since = self._seen if revision >= heard else 0
            whole = since == 0
            if revision == since:
                return revision, False, []
            return revision, whole, [part.read(session, since) for part in self._parts]

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                for chore in self._early_chores:
                    await chore()
                if await self._refresh_in_time():
                    for chore in self._chores:
                        await chore()
            except SealaneError as error:
                # A lost storage is told once, by `_load`.
                _log.debug("poll: %s", error.detail)
            except Exception:
                # The poller must outlive anything: without it revocations would never arrive.
                _log.exception("the follower failed")

    async def _refresh_in_time(self) -> bool:
        """Whether the storage answered soon. If it hangs, the question stands, and the poller goes its rounds."""
        refresh = asyncio.ensure_future(self.refresh())
        refresh.add_done_callback(_look_at)
        done, _ = await asyncio.wait([refresh], timeout=max(1.0, 2 * self._interval))
        if done:
            refresh.result()
        return bool(done)


def _look_at(task: asyncio.Future[None]) -> None:
    """So that asyncio does not complain of an error which nobody was left to see."""
    if not task.cancelled():
        task.exception()
