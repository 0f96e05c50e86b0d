"""The service's main job over HTTP on each architecture, and its messages carried from one to the next.

One development folder goes from machine to machine, so each opens and verifies what all before it sealed and MACed:
the formats, the wrapped keys and the database do not depend on the byte order of whoever wrote them.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from models import BEST_MODELS, Model

pytestmark = pytest.mark.emulated

START_SECONDS = 300
OCTETS = {"content-type": "application/octet-stream"}
BODIES = {"empty": b"", "short": b"attack at dawn", "page": bytes(range(256)) * 16, "large": b"\xff\x00\x80" * 70_000}


@dataclass
class Carried:
    """What earlier machines left for later ones."""

    sealed: list[tuple[str, bytes]] = field(default_factory=list)
    macs: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def serving(command: list[str], port: int) -> Iterator[httpx.Client]:
    """The service, ready; stopped by SIGTERM, as an orchestrator would."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            until = time.monotonic() + START_SECONDS
            while True:
                try:
                    if client.get("/readyz").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                if process.poll() is not None or time.monotonic() > until:
                    process.kill()
                    said = process.communicate()[0].decode(errors="replace")
                    pytest.fail(f"not ready, exit status {process.returncode}\n{said[-6000:]}", pytrace=False)
                time.sleep(0.5)
            yield client
    finally:
        process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            pytest.fail("it did not stop within a minute of SIGTERM", pytrace=False)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main_job(client: httpx.Client, model: Model, carried: Carried) -> None:
    """Create a key, seal, open, MAC and verify, raw and in JSON, and then with all that came from elsewhere."""
    name = f"made-on-{model.architecture.name}-{len(carried.sealed)}"
    assert client.get("/v1/engine").json()["kernel"] == model.best
    assert client.post(f"/v1/keys/{name}", json={"type": "chacha20-poly1305"}).status_code == 201
    for key in ("demo", name):
        for body in BODIES.values():
            answer = client.post(f"/v1/keys/{key}/seal", content=body, headers=OCTETS)
            assert answer.status_code == 200
            assert answer.headers["sealane-key-version"] == "1"
            carried.sealed.append((key, answer.content))
    cut = carried.sealed[-1][1][:-1]
    assert client.post(f"/v1/keys/{name}/open", content=cut, headers=OCTETS).status_code == 422
    answer = client.post("/v1/keys/demo/seal", json={"plaintext": "aGVsbG8=", "aad": "YWFk"})
    opened = client.post("/v1/keys/demo/open", json={"sealed": answer.json()["sealed"], "aad": "YWFk"})
    assert opened.json()["plaintext"] == "aGVsbG8="
    for body_name, body in BODIES.items():
        answer = client.post("/v1/keys/demo-mac/mac", content=body, headers=OCTETS)
        carried.macs.append((body_name, answer.json()["mac"]))
    for index, (key, sealed) in enumerate(carried.sealed):
        answer = client.post(f"/v1/keys/{key}/open", content=sealed, headers=OCTETS)
        assert answer.content == list(BODIES.values())[index % len(BODIES)], key
    for body_name, mac in carried.macs:
        for content, valid in ((BODIES[body_name], True), (BODIES[body_name] + b"\0", False)):
            headers = {**OCTETS, "sealane-mac": mac}
            answer = client.post("/v1/keys/demo-mac/verify", content=content, headers=headers)
            assert answer.json()["valid"] is valid


def test_the_main_job_from_machine_to_machine(python: Callable[..., list[str]], tmp_path: Path) -> None:
    carried = Carried()
    port = free_port()
    for model in [*BEST_MODELS, BEST_MODELS[0]]:  # and back again
        command = python(
            model,
            *("-m", "service.cli", "serve", "--dev", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            environment={"SEALANE_DEV_FOLDER": "/src/state"},
            writable={tmp_path: "/src/state"},
        )
        with serving(command, port) as client:
            client.headers["authorization"] = f"Bearer {(tmp_path / 'token').read_text().strip()}"
            main_job(client, model, carried)
