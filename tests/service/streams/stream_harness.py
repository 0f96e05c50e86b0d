"""Keys without a storage, clients without a server, and streams that somebody forged."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import engine
from service.keys import ACTIVE, Key, KeyVersion, version_purpose
from service.master import MasterKey
from service.spool import Spool
from service.streaming import Stream
from service.wire import Body, HeaderList, Message, Watch

CHUNK = 16 * 1024
SEALED_CHUNK = CHUNK + 16
HEAD = 64
MIB = 2**20


def program(name: str) -> str:
    """Its path. Where it is missing the test is skipped, except by CI, which has to have it."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return found


def make_key(type: str = "xchacha20-poly1305", versions: int = 1, state: str = ACTIVE) -> Key:
    master = MasterKey({1: engine.Aead(os.urandom(32), "xchacha20-poly1305")})
    now = datetime.now(UTC)
    made = {}
    for number in range(1, versions + 1):
        purpose = version_purpose("test", type, number, "uid")
        made[number] = KeyVersion(purpose, now, master, *master.wrap(os.urandom(32), purpose))
    return Key("test", "uid", type, state, versions, now, None, 1, made)


def sealed(key: Key, plaintext: bytes, aad: bytes = b"") -> bytes:
    head, sealer, _ = key.seal_stream(aad)
    return head + sealer.update(plaintext) + sealer.finish()


def forgeries(stream: bytes) -> dict[str, bytes]:
    """What may befall a stream of several chunks, at every border of one."""
    count = (len(stream) - HEAD) // SEALED_CHUNK
    borders = [HEAD + SEALED_CHUNK * number for number in range(count + 1)]
    chunks = [stream[at : at + SEALED_CHUNK] for at in borders]
    made = {"nothing after the head": stream[:HEAD], "continued": stream + b"\0", "twice": stream + stream[HEAD:]}
    for number, at in enumerate(borders):
        for where in (at - 1, at, at + SEALED_CHUNK - 16):
            if where < len(stream):
                made[f"bit flipped at {where}"] = stream[:where] + bytes([stream[where] ^ 1]) + stream[where + 1 :]
        for length in (at - 1, at, at + 1, at + 16):
            if 80 <= length < len(stream):
                made[f"cut at {length}"] = stream[:length]
        if number + 1 < count:
            order = [*chunks]
            order[number], order[number + 1] = order[number + 1], order[number]
            made[f"chunks {number} and {number + 1} changed"] = stream[:HEAD] + b"".join(order)
        made[f"chunk {number} left out"] = stream[:HEAD] + b"".join(chunks[:number] + chunks[number + 1 :])
        made[f"chunk {number} again"] = stream[:at] + chunks[number] + stream[at:]
    made[f"bit flipped at {len(stream) - 1}"] = stream[:-1] + bytes([stream[-1] ^ 1])
    return {what: forged for what, forged in made.items() if forged != stream}


def pieces(data: bytes, seed: int | None = None, most: int = 100_000) -> list[bytes]:
    """`data` in pieces of random lengths, empty ones among them."""
    chance = random.Random(seed)
    made, at = [], 0
    while at < len(data):
        length = chance.choice((0, 1, chance.randrange(most), 16_400, 64))
        made.append(data[at : at + length])
        at += length
    return made


class Client:
    """The other side of a call. It sends `body`, then waits; it reads while `reading` is set."""

    def __init__(self, body: list[bytes], *, ends: bool = True) -> None:
        self._body = list(body)
        self._ends = ends
        self.reading = asyncio.Event()
        self.reading.set()
        self.dropped = asyncio.Event()
        self.heads: list[Message] = []
        self.read: list[bytes] = []
        self.whole = False
        self.fed = 0
        self._asked = asyncio.Event()

    async def has_sent(self, count: int) -> None:
        while self.fed < count:
            self._asked.clear()
            await self._asked.wait()

    async def receive(self) -> Message:
        if self.dropped.is_set():
            return {"type": "http.disconnect"}
        if self._body:
            piece = self._body.pop(0)
            self.fed += len(piece)
            self._asked.set()
            await asyncio.sleep(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._body) or not self._ends}
        await self.dropped.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if not self.reading.is_set():
            waits = [asyncio.ensure_future(event.wait()) for event in (self.reading, self.dropped)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        if self.dropped.is_set():
            return
        if message["type"] == "http.response.start":
            self.heads.append(message)
        else:
            self.read.append(message["body"])
            self.whole = not message["more_body"]

    @property
    def answer(self) -> bytes:
        return b"".join(self.read)


class Recorded:
    """What the audit trail would be told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []
        self.fails: Exception | None = None

    async def __call__(self, version: int, outcome: str, sent: int) -> None:
        if self.fails is not None:
            raise self.fails
        self.lines.append((outcome, sent))


async def settled(value: Callable[[], int], seconds: float = 0.5) -> int:
    """The value once it did not change for so long."""
    before = -1
    while (now := value()) != before:
        before = now
        await asyncio.sleep(seconds)
    return now


def make_stream(client: Client, spool: Spool, record: Any = None, stall: float = 30) -> Stream:
    def headers(length: int | None, version: int) -> HeaderList:
        return [(b"sealane-key-version", b"%d" % version)] + ([(b"content-length", b"%d" % length)] if length else [])

    body = Body(client.receive, {}, Watch(30, 1024, 2**30))
    return Stream(spool, body, client.send, headers, record or Recorded(), stall, client.dropped.set)


def run(folder: Path, work: Callable[[Spool], Any], stream_bytes: int = 64 * MIB, total_bytes: int = 128 * MIB) -> Any:
    """`asyncio.run(work(spool))`, within a time that no test needs."""

    async def main() -> Any:
        spool = Spool(folder / "spool", stream_bytes, total_bytes)
        spool.open()
        try:
            async with asyncio.timeout(120):
                return await work(spool)
        finally:
            spool.close()
            assert spool.reserved == 0

    return asyncio.run(main())


async def same_key(key: Key) -> Key:
    return key
