"""The three servers that `sealane bench http` measures, each on loopback with data in a temporary folder: ours,
OpenBao's Transit engine (a `bao` on the path), and the empty echo on a stock uvicorn."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from service.bench.processes import ServerFailed, free_port, server

KEY = "demo"  # the key that `serve --dev` makes


@contextmanager
def sealane(folder: Path, workers: int) -> Iterator[tuple[str, str]]:
    """Our service as `sealane serve --dev` runs it. Yields its base URL and a token."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    token = f"sealane_bench_{secrets.token_urlsafe(32)}"
    environment = {
        "SEALANE_DEV_FOLDER": str(folder / "sealane"),
        "SEALANE_DEV_TOKEN": token,
        "SEALANE_PORT": str(port),
        "SEALANE_WORKERS": str(workers),
    }
    command = [sys.executable, "-m", "service.cli", "serve", "--dev"]
    with server("sealane", command, f"{url}/readyz", folder / "sealane.log", environment):
        yield url, token


def echo_command(port: int, workers: int) -> list[str]:
    """The echo on uvicorn's own command: uvloop and httptools where they are installed, no access log."""
    command = [sys.executable, "-m", "uvicorn", "service.bench.echo:app", "--host", "127.0.0.1", "--port", str(port)]
    return [*command, "--workers", str(workers), "--no-access-log", "--log-level", "warning"]


def echo_settings(workers: int) -> str:
    """The echo's settings in words, since they move its figures."""
    loop = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio"
    parser = "httptools" if importlib.util.find_spec("httptools") else "h11"
    return f"stock uvicorn, {workers} workers, {loop}, {parser}, no access log"


@contextmanager
def echo(folder: Path, workers: int) -> Iterator[str]:
    """The empty echo. Yields its base URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with server("the echo", echo_command(port, workers), url, folder / "echo.log"):
        yield url


def find_bao() -> str | None:
    """The program `bao`, if it is on the path."""
    return shutil.which("bao")


@contextmanager
def openbao(program: str, folder: Path) -> Iterator[tuple[str, str]]:
    """`bao server -dev` with a Transit key of type chacha20-poly1305. Yields its base URL and a token."""
    port, token = free_port(), secrets.token_urlsafe(24)
    url = f"http://127.0.0.1:{port}"
    command = [program, "server", "-dev", "-dev-no-store-token", f"-dev-listen-address=127.0.0.1:{port}"]
    # The token goes by environment, not by the command line that every user of the machine can read.
    environment = {"BAO_DEV_ROOT_TOKEN_ID": token, "HOME": str(folder)}
    with server("OpenBao", command, f"{url}/v1/sys/health", folder / "openbao.log", environment):
        with httpx.Client(base_url=url, headers={"X-Vault-Token": token}, trust_env=False) as client:
            for path, body in (
                ("/v1/sys/mounts/transit", {"type": "transit"}),
                (f"/v1/transit/keys/{KEY}", {"type": "chacha20-poly1305"}),
            ):
                answer = client.post(path, json=body)
                if answer.status_code >= 400:
                    raise ServerFailed(f"OpenBao answered {answer.status_code} to {path}")
        yield url, token


def openbao_version(program: str) -> str:
    """The version line of `bao version`."""
    done = subprocess.run([program, "version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip().partition(",")[0]
