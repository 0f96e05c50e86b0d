"""kill -9 at any point of an upload, a hundred times, always ends in the right MAC."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import threading
import time
from pathlib import Path

import httpx
import pytest
from replicas import KEY, Replica, furnish, replicas
from upload_scene import verified

from service.settings import Settings

PARTIAL = {"content-type": "application/partial-upload"}
TROUBLE = (httpx.TransportError,)


def _state(client: httpx.Client, location: str) -> httpx.Response:
    end = time.monotonic() + 30
    while True:
        with contextlib.suppress(*TROUBLE):
            answer = client.head(location)
            if answer.status_code == 204:
                return answer
            assert answer.status_code == 503, answer.status_code
        assert time.monotonic() < end
        time.sleep(0.01)


def upload(clients: list[httpx.Client], data: bytes, chance: random.Random, slowly: float = 0) -> tuple[bytes, int]:
    """The MAC of `data`, by whatever it takes, and how many attempts that was."""
    client = chance.choice(clients)
    while True:
        with contextlib.suppress(*TROUBLE):
            begun = client.post(f"/v1/keys/{KEY}/mac-streams")
            if begun.status_code == 201:
                break
        time.sleep(0.01)
    location = begun.headers["location"]
    attempts, told = 0, 0
    while True:
        client = chance.choice(clients)
        state = _state(client, location)
        offset = int(state.headers["upload-offset"])
        # What was once told to be there is there.
        assert offset >= told
        told = offset
        if state.headers["upload-complete"] == "?1":
            return base64.b64decode(state.headers["sealane-mac"]), attempts
        attempts += 1
        last = chance.random() < 0.7

        def pieces(offset: int = offset) -> object:
            for at in range(offset, len(data), 4096):
                yield data[at : min(at + 4096, len(data))]
                if slowly:
                    time.sleep(slowly)

        with contextlib.suppress(*TROUBLE):
            answer = client.patch(
                location, content=pieces(), headers={**PARTIAL, "upload-offset": str(offset),
                                                     "upload-complete": "?1" if last else "?0"},
            )  # fmt: skip
            if answer.status_code == 200:
                return base64.b64decode(answer.json()["mac"]), attempts
            assert answer.status_code in (204, 409, 503), answer.text


class _Killer(threading.Thread):
    """Kills its replica at random moments and starts it again, until it is told to end."""

    def __init__(self, target: Replica, seed: int) -> None:
        super().__init__()
        self.target, self.chance = target, random.Random(seed)
        self.kills = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(self.chance.random() ** 2 * 0.25):
            self.target.kill()
            self.kills += 1
            self.target.start()


@pytest.mark.slow
def test_a_hundred_kills(settings: Settings, tmp_path: Path) -> None:
    token = furnish(settings)
    chance = random.Random(7)
    macs = attempts = resumed = 0
    with replicas(settings, tmp_path, 2, upload_checkpoint_bytes=4096) as servers, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.client(token)) for server in servers]
        killers = [_Killer(server, seed) for seed, server in enumerate(servers)]
        for killer in killers:
            killer.start()
        end = time.monotonic() + 400
        try:
            while sum(killer.kills for killer in killers) < 100 and time.monotonic() < end:
                data = os.urandom(chance.randrange(1, 200_000))
                mac, tries = upload(clients, data, chance, slowly=chance.choice((0, 0.001, 0.005)))
                macs, attempts, resumed = macs + 1, attempts + tries, resumed + (tries > 1)
                while True:
                    with contextlib.suppress(*TROUBLE):
                        assert verified(chance.choice(clients), data, mac)
                        assert not verified(chance.choice(clients), data + b"x", mac)
                        break
        finally:
            for killer in killers:
                killer.over.set()
            for killer in killers:
                killer.join(60)
    kills = sum(killer.kills for killer in killers)
    print(f"\n{kills} kills, {macs} uploads, {attempts} appends, {resumed} uploads went on after a kill")
    assert kills >= 100
    assert resumed >= 10
