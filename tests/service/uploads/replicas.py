"""Servers on one storage that are started in a moment, so that they can be killed often.

Run as a program, it imports the service once and forks a server for each line that it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from service.access import Grant
from service.core import Core
from service.settings import Settings

KEY = "sums"


class Replica:
    """One server on a port of its own, which it keeps when it is started again."""

    def __init__(self, settings: Settings, folder: Path, **changes: Any) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = folder / f"log-{self.port}"
        changed = settings.model_copy(update={"port": self.port, "workers": 1, **changes})
        file = folder / f"settings-{self.port}"
        file.write_bytes(pickle.dumps(changed))
        file.chmod(0o600)
        with self.log_path.open("wb") as log:
            self._forker = subprocess.Popen(
                [sys.executable, __file__, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip
        self.pid = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # The forker and all that it has forked are one group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._forker.pid, signal.SIGKILL)
        self._forker.wait(20)
        for pipe in (self._forker.stdin, self._forker.stdout):
            if pipe is not None:
                pipe.close()

    def start(self) -> None:
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.write("start\n")
        self._forker.stdin.flush()
        self.pid = int(self._forker.stdout.readline())
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            assert time.monotonic() < end, self.log_path.read_text()
            time.sleep(0.01)

    def kill(self) -> None:
        """As kill -9 does it, the whole server with all its workers."""
        for pid in [*self.workers(), self.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def workers(self) -> list[int]:
        """The processes that serve; without any of their own, the server itself."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(status.read_text().rpartition(")")[2].split()[1]) == self.pid:
                    found.append(int(status.parent.name))
        return found

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def client(self, token: str, **more: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=20, **more)


@contextlib.contextmanager
def replicas(settings: Settings, folder: Path, count: int, **changes: Any) -> Iterator[list[Replica]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Replica(settings, folder, **changes)) for _ in range(count)]


def furnish(settings: Settings) -> str:
    """Make a MAC key, and a token that may do all."""

    async def make() -> str:
        core = Core.open(settings)
        await core.start()
        try:
            await core.keyring.create(KEY, "poly1305-xchacha20", actor="test")
            token, _ = await core.access.create("test", [Grant.parse("*")], actor="test")
            return token
        finally:
            await core.stop()

    return asyncio.run(make())


def _main(file: str) -> None:
    from service.server import run

    settings: Settings = pickle.loads(Path(file).read_bytes())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            # Nothing is left behind when the tests are cut short.
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            run(settings)
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
