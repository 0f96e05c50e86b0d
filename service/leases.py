"""The count of messages that a chacha20-poly1305 key version has sealed, kept across all workers without a query each.

Nonces of 12 random bytes may repeat: among 2^32 messages with a chance of about 2^-33, which is where NIST SP 800-38D
section 8.3 draws the line for nonces of this size. A worker reserves a block of the count in the
storage and uses it up from memory. A crash loses what is left of its block; nothing is ever counted twice.
"""

import asyncio
from threading import Lock
from time import monotonic
from typing import Final

from sqlalchemy import select, update

from service.errors import LimitReached, NeedLease, StorageUnavailable
from service.storage import Database, KeyVersionRow

MESSAGE_LIMIT: Final = 2**32
LEAST_BLOCK: Final = 256
LARGEST_BLOCK: Final = 2**24
# After a refusal the storage is asked again no sooner than this (another worker may give some back when it stops).
_REFUSED_FOR: Final = 1.0


class Lease:
    """What this worker may still seal under one key version. `take` may be called from any thread."""

    __slots__ = (
        "_lock",
        "growing",
        "key_name",
        "last_block",
        "last_growth",
        "left",
        "rate",
        "refused_at",
        "taken",
        "version",
    )

    def __init__(self, key_name: str, version: int) -> None:
        self.key_name = key_name
        self.version = version
        self.left = 0
        self.taken = 0
        self.rate = 0.0
        self.last_block = 0
        self.last_growth = 0.0
        self.refused_at = float("-inf")
        self.growing = asyncio.Lock()
        self._lock = Lock()

    def take(self, count: int) -> None:
        """Uses up `count` messages. NeedLease if fewer are left; then none is taken."""
        with self._lock:
            if self.left < count:
                raise NeedLease
            self.left -= count
            self.taken += count

    def add(self, count: int) -> None:
        with self._lock:
            self.left += count

    def give_up(self) -> int:
        """All that is left, which from now on is no longer here."""
        with self._lock:
            left, self.left = self.left, 0
            return left


class Leases:
    """Reserves blocks. They are sized to last for `horizon` seconds at the rate that they are used: so losing the
    storage stops this type of key no sooner than the others, at the price of a larger block lost in a crash."""

    def __init__(self, database: Database, *, horizon: float) -> None:
        self._database = database
        self._horizon = horizon
        self._active: dict[tuple[str, int], Lease] = {}
        self._last_look = monotonic()

    async def ensure(self, lease: Lease, count: int) -> None:
        """Returns when `count` messages are there to take. LimitReached, StorageUnavailable."""
        self._active[lease.key_name, lease.version] = lease
        async with lease.growing:
            if lease.left >= count:
                return
            if monotonic() - lease.refused_at < _REFUSED_FOR:
                raise LimitReached
            # A block that was gone within a second was too small.
            again = 2 * lease.last_block if monotonic() - lease.last_growth < 1 else 0
            await self._grow(lease, count - lease.left, max(again, self._target(lease)))

    async def top_up(self) -> None:
        """Follows the rates, and reserves ahead of need so that no call waits; after each poll of the storage."""
        now = monotonic()
        elapsed, self._last_look = now - self._last_look, now
        for lease in list(self._active.values()):
            recent, lease.taken = lease.taken / max(elapsed, 1e-3), 0
            lease.rate = max(recent, 0.7 * lease.rate + 0.3 * recent)
            target = self._target(lease)
            if lease.rate < 1e-3:
                # Not in use: nothing is reserved for it.
                continue
            if lease.left < target // 2 and now - lease.refused_at >= _REFUSED_FOR:
                async with lease.growing:
                    try:
                        await self._grow(lease, 1, target - lease.left)
                    except LimitReached:
                        continue

    async def give_back(self) -> None:
        """Returns what is left when a worker stops. Once: if it is not known whether that worked, it is lost."""
        leases = [(lease, lease.give_up()) for lease in self._active.values()]
        self._active.clear()
        for lease, left in leases:
            if left:
                await self._database.call(self._return, lease, left)

    def _target(self, lease: Lease) -> int:
        return max(LEAST_BLOCK, min(LARGEST_BLOCK, int(lease.rate * self._horizon)))

    async def _grow(self, lease: Lease, least: int, wanted: int) -> None:
        granted = await self._database.call(self._reserve, lease, least, min(wanted, LARGEST_BLOCK))
        if not granted:
            lease.refused_at = monotonic()
            raise LimitReached
        lease.add(granted)
        lease.last_block = granted
        lease.last_growth = monotonic()

    def _reserve(self, lease: Lease, least: int, wanted: int) -> int:
        """At least `least`, or 0 if there are not that many. It counts only once it is committed."""
        row = KeyVersionRow
        here = (row.key_name == lease.key_name, row.version == lease.version)
        with self._database.write() as session:
            reserved = session.scalar(select(row.reserved).where(*here, row.destroyed_at.is_(None)).with_for_update())
            if reserved is None:
                raise StorageUnavailable("the key version is no longer there")
            remaining = MESSAGE_LIMIT - reserved
            if remaining < least:
                return 0
            # Towards the end the blocks get small, so that one worker does not sit on what another needs.
            granted = min(remaining, max(least, min(wanted, remaining // 4)))
            session.execute(update(row).where(*here).values(reserved=row.reserved + granted))
            return granted

    def _return(self, lease: Lease, count: int) -> None:
        row = KeyVersionRow
        here = (row.key_name == lease.key_name, row.version == lease.version)
        with self._database.write() as session:
            session.execute(update(row).where(*here).values(reserved=row.reserved - count))
