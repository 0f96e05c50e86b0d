"""Servers under measurement: started on loopback in a session of their own, awaited, and always ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0


class ServerFailed(Exception):
    """A server did not start, or does not do what is to be measured."""


def free_port() -> int:
    """A TCP port on loopback that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server(
    name: str, command: Sequence[str], answers_at: str, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run `command` until the block ends; enter it once `answers_at` answers with a status under 400.

    Output goes to `log`. ServerFailed, with the end of that log, if it exits or does not answer within 30 s.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        _await_answer(name, process, answers_at, log)
        yield
    finally:
        _stop(process)


def _await_answer(name: str, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            if httpx.get(url, timeout=2, trust_env=False).status_code < 400:
                return
        time.sleep(0.1)
    state = "did not answer in time" if process.poll() is None else f"exited with {process.returncode}"
    raise ServerFailed(f"{name} {state}; its log ends:\n{log.read_text(errors='replace')[-1500:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the whole group: some servers run workers, some are started by a wrapper."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
    # The leader is gone; what is left of its group was killed above.
