"""`sealane serve`: development at once, production only when it is set up."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from cli_harness import Run

from service.bench.processes import free_port
from service.client import Client


@contextmanager
def serving(folder: Path, *arguments: str, **environment: str) -> Iterator[tuple[str, Path]]:
    """A server in `folder`, with its URL and its log; told to end by SIGTERM, which it must obey."""
    port, log = free_port(), folder / "log"
    command = [sys.executable, "-m", "service.cli", "serve", "--port", str(port), "--workers", "1", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=output, env={**os.environ, "COLUMNS": "60", **environment}
        )
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if httpx.get(f"{url}/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        assert process.poll() is None, log.read_text()
        yield url, log
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()


def test_development_needs_nothing_and_says_what_it_is(tmp_path: Path) -> None:
    with serving(tmp_path, "--dev") as (url, log):
        folder = tmp_path / ".dev"
        token_file = folder / "token"
        token = token_file.read_text().strip()
        shown = log.read_text()
        assert "FOR DEVELOPMENT ONLY" in shown
        assert token in shown, "the token must come out whole, however narrow the terminal"
        assert url in shown
        assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert (folder / ".gitignore").read_text() == "*\n"
        with Client(url, token) as client:
            sealed = client.seal("demo", b"hello")
            assert client.verify("demo-mac", client.mac("demo-mac", b"hello").mac, b"hello")
    # The same folder again: same keys, same token.
    with serving(tmp_path, "--dev") as (url, log), Client(url, token) as client:
        assert client.open("demo", sealed.message).plaintext == b"hello"
        assert token in log.read_text()


def test_development_token_from_outside(tmp_path: Path) -> None:
    token = "a-token-of-my-own-for-development"
    with serving(tmp_path, "--dev", SEALANE_DEV_TOKEN=token) as (url, _), Client(url, token) as client:
        assert client.engine().backend


def test_production_serves_what_init_made(run: Run, tmp_path: Path) -> None:
    token = run("init").stdout.strip()
    with serving(tmp_path) as (url, log), Client(url, token) as client:
        assert client.create_key("orders").state == "active"
        assert client.open("orders", client.seal("orders", b"x").message).plaintext == b"x"
        # A change on the storage itself is in force within a second.
        assert run("key", "rotate", "orders").exit_code == 0
        deadline = time.monotonic() + 5
        while client.seal("orders", b"x").key_version == 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert client.seal("orders", b"x").key_version == 2
        assert "DEVELOPMENT" not in log.read_text()
        assert token not in log.read_text()


@pytest.mark.parametrize("exposed", [False, True])
def test_production_that_is_not_set_up_is_refused_in_one_line(run: Run, tmp_path: Path, exposed: bool) -> None:
    if exposed:
        run("init")
        (tmp_path / "secret" / "master.key").chmod(0o644)
    command = [sys.executable, "-m", "service.cli", "serve", "--port", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (69, 78)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("sealane: ")
    assert ("chmod 600" if exposed else "sealane init") in last
    assert "Traceback" not in done.stderr
