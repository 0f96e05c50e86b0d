"""A GiB through each call, with a look at the memory of the worker."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_harness import OCTETS, Server, running_server
from stream_harness import MIB
from test_clients import CLIENTS, Ask, by_httpx, curl

# How far a worker's resident memory may grow, at most, whatever the length of the stream.
GROWTH = 16 * MIB
SIZES = [pytest.param(128 * MIB, id="128MiB"), pytest.param(2**30, id="1GiB", marks=pytest.mark.slow)]


def memory(server: Server, field: str) -> int:
    """Bytes; the peak begins anew."""
    folder = Path(f"/proc/{server.process.pid}")
    line = next(line for line in (folder / "status").read_text().splitlines() if line.startswith(field))
    (folder / "clear_refs").write_text("5")
    return int(line.split()[1]) * 1024


def digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("large"), body_timeout=60) as running:
        # What is loaded at first use is no growth.
        for url in ("demo/seal-stream", "demo/open-stream"):
            httpx.post(f"{running.url}/v1/keys/{url}", content=bytes(100), headers=OCTETS)
        yield running


@pytest.mark.parametrize("size", SIZES)
def test_memory_is_constant(server: Server, size: int, tmp_path: Path, record_property: Any) -> None:
    plain, sealed, opened = tmp_path / "plain", tmp_path / "sealed", tmp_path / "opened"
    block = os.urandom(MIB)
    with plain.open("wb") as file:
        for number in range(size // MIB):
            file.write(number.to_bytes(8) + block[8:])
    wanted = digest(plain)
    clients: list[Ask] = [curl, by_httpx] if size < 2**30 else CLIENTS
    for client in clients:
        for call, source, target in (
            ("demo/seal-stream", plain, sealed),
            ("demo/open-stream", sealed, opened),
            ("demo/open-stream?release=chunk", sealed, opened),
            ("demo-mac/mac", plain, tmp_path / "mac"),
        ):
            before = memory(server, "VmRSS")
            if call == "demo-mac/mac" and "curl" in client.__name__:
                curl(f"{server.url}/v1/keys/{call}", source, target, "-H", "content-type: application/octet-stream")
            else:
                client(f"{server.url}/v1/keys/{call}", source, target)
            growth = memory(server, "VmHWM") - before
            record_property(f"{client.__name__} {call}", f"{growth / MIB:.1f} MiB")
            print(f"{client.__name__:20} {call:32} {growth / MIB:5.1f} MiB")
            assert growth < GROWTH, (client.__name__, call)
            if target is opened:
                assert digest(opened) == wanted, (client.__name__, call)
                opened.unlink()
