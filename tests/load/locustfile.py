"""Load scenarios; each class is one. run.py runs them, or, with SEALANE_TOKEN set: locust -f THIS --host URL CLASS...

They use the keys "load" and "load-mac" (poly1305-xchacha20), which must be there. Only for services of your own.
"""

from __future__ import annotations

import base64
import os
import random

from locust import FastHttpUser, constant, tag, task

TOKEN = os.environ.get("SEALANE_TOKEN", "")
AUTH = {"Authorization": f"Bearer {TOKEN}"}
OCTETS = {**AUTH, "Content-Type": "application/octet-stream"}
BODIES = {size: os.urandom(size) for size in (64, 8192, 2**20)}


class Caller(FastHttpUser):
    abstract = True
    wait_time = constant(0)

    def round_trip(self, size: int) -> None:
        """Seals and opens, and is content only with what went in."""
        body = BODIES[size]
        sealed = self.client.post("/v1/keys/load/seal", data=body, headers=OCTETS, name=f"seal {size} B")
        with self.client.post(
            "/v1/keys/load/open", data=sealed.content, headers=OCTETS, name=f"open {size} B", catch_response=True
        ) as opened:
            if opened.content != body:
                opened.failure("opened to something else")

    def json(self) -> None:
        plaintext = base64.b64encode(BODIES[64]).decode()
        sealed = self.client.post("/v1/keys/load/seal", json={"plaintext": plaintext}, headers=AUTH, name="seal JSON")
        with self.client.post(
            "/v1/keys/load/open", json={"sealed": sealed.json()["sealed"]}, headers=AUTH, name="open JSON",
            catch_response=True,
        ) as opened:  # fmt: skip
            if opened.json()["plaintext"] != plaintext:
                opened.failure("opened to something else")

    def batch(self) -> None:
        items = [{"plaintext": base64.b64encode(BODIES[64]).decode()}] * 100
        with self.client.post(
            "/v1/keys/load/seal", json={"items": items}, headers=AUTH, name="seal batch of 100", catch_response=True
        ) as answer:
            if len(answer.json()["results"]) != 100 or "problem" in answer.text:
                answer.failure("an item failed")

    def mac(self) -> None:
        body = BODIES[2**20]
        mac = self.client.post("/v1/keys/load-mac/mac", data=body, headers=OCTETS, name="mac 1 MiB").json()["mac"]
        with self.client.post(
            "/v1/keys/load-mac/verify", data=body, headers={**OCTETS, "Sealane-Mac": mac}, name="verify 1 MiB",
            catch_response=True,
        ) as answer:  # fmt: skip
            if answer.json()["valid"] is not True:
                answer.failure("its own MAC does not verify")

    def stream(self) -> None:
        body = BODIES[2**20]
        sealed = self.client.post("/v1/keys/load/seal-stream", data=body, headers=OCTETS, name="seal-stream 1 MiB")
        with self.client.post(
            "/v1/keys/load/open-stream", data=sealed.content, headers=OCTETS, name="open-stream 1 MiB",
            catch_response=True,
        ) as opened:  # fmt: skip
            if opened.content != body:
                opened.failure("opened to something else")


class SmallJson(Caller):
    go = task(Caller.json)


class SmallRaw(Caller):
    @task
    def go(self) -> None:
        self.round_trip(64)


class Pages(Caller):
    @task
    def go(self) -> None:
        self.round_trip(8192)


class Large(Caller):
    @task
    def go(self) -> None:
        self.round_trip(2**20)


class Batches(Caller):
    go = task(Caller.batch)


class Streams(Caller):
    sealing = task(Caller.stream)
    macs = task(Caller.mac)


class Mixed(Caller):
    small = task(20)(Caller.json)
    batches = task(1)(Caller.batch)
    macs = task(1)(Caller.mac)
    streams = task(1)(Caller.stream)

    @task(20)
    def raw(self) -> None:
        self.round_trip(random.choices([64, 8192, 2**20], [12, 6, 1])[0])


class Rotator(FastHttpUser):
    """Rotates the key that all others use, every five seconds."""

    fixed_count = 1
    wait_time = constant(5)

    @tag("rotation")
    @task
    def go(self) -> None:
        self.client.post("/v1/keys/load/rotate", headers=AUTH, name="rotate")
