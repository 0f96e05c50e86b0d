"""An application in this process, and a real server in another, each on a folder of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import SecretStr
from storage_backends import CURRENT

from service.app import Sealane, create_app
from service.settings import Settings, dev_settings
from service.setup import prepare_dev

TOKEN = "sealane-test-token-with-enough-characters-in-it"
AUTH = {"authorization": f"Bearer {TOKEN}"}
OCTETS = {**AUTH, "content-type": "application/octet-stream"}


def settings_in(folder: Path, **changes: Any) -> Settings:
    """A fresh development installation; `changes` are settings of the server that uses it."""
    settings = dev_settings(Settings(dev_folder=folder, dev_token=TOKEN, **changes))
    if CURRENT and CURRENT[-1].name != "sqlite":
        settings = settings.model_copy(update={"database_url": SecretStr(CURRENT[-1].empty_url(folder))})
    prepare_dev(settings)
    return settings


class App:
    """The application in a loop of its own, and calls to it."""

    def __init__(self, portal: BlockingPortal, app: Sealane) -> None:
        self.portal = portal
        self.app = app

    def call(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        kwargs.setdefault("headers", AUTH)

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://sealane") as client:
                return await client.request(method, path, **kwargs)

        return self.portal.call(ask)

    def post(self, path: str, **kwargs: Any) -> httpx.Response:
        return self.call("POST", path, **kwargs)

    def get(self, path: str, **kwargs: Any) -> httpx.Response:
        return self.call("GET", path, **kwargs)

    def token(self, *grants: tuple[list[str], str], **more: Any) -> dict[str, str]:
        """Headers with a new token of these grants."""
        body = {"name": "test", "grants": [{"actions": actions, "keys": keys} for actions, keys in grants], **more}
        made = self.post("/v1/tokens", json=body)
        assert made.status_code == 201, made.text
        return {"authorization": f"Bearer {made.json()['token']}"}


@contextlib.contextmanager
def running_app(settings: Settings) -> Iterator[App]:
    """The application between its start and its end."""
    with start_blocking_portal() as portal:
        app = create_app(settings)
        with portal.wrap_async_context_manager(app.router.lifespan_context(app)):
            yield App(portal, app)


class Server:
    """`run(settings)` in a process of its own."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        settings = settings_in(folder)
        self.log_path = folder / "log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        environment = {
            **os.environ,
            "SEALANE_DEV_FOLDER": str(folder),
            "SEALANE_PORT": str(self.port),
            "SEALANE_WORKERS": "1",
            "COVERAGE_PROCESS_START": "",
            "TEST_DATABASE_URL": settings.database_url.get_secret_value(),
            **{f"SEALANE_{name.upper()}": str(value) for name, value in changes.items()},
        }
        code = (
            "import os\n"
            "from pydantic import SecretStr\n"
            "from service.settings import Settings, dev_settings\n"
            "from service.server import run\n"
            "if __name__ == '__main__':\n"
            "    url = SecretStr(os.environ['TEST_DATABASE_URL'])\n"
            "    run(dev_settings(Settings()).model_copy(update={'database_url': url}))\n"
        )
        script = folder / "serve.py"
        script.write_text(code)
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=log, stdout=log)
        self.url = f"http://127.0.0.1:{self.port}"
        try:
            self._wait()
        except BaseException:
            self.process.terminate()
            self.process.wait(30)
            raise

    def _wait(self) -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log()
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz", timeout=1).status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(self.log())

    def log(self) -> str:
        return self.log_path.read_text()

    def stop(self, number: int = signal.SIGTERM, within: float = 20) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(within)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)


@contextlib.contextmanager
def running_server(folder: Path, **changes: Any) -> Iterator[Server]:
    server = Server(folder, **changes)
    try:
        yield server
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.stop()
        server.process.kill()
        server.process.wait()


def ask(method: str, path: str, body: bytes = b"", *headers: str, token: bool = True) -> bytes:
    """A request as it stands on the wire; Content-Length is added unless a header speaks of the body."""
    lines = [f"{method} {path} HTTP/1.1", "host: sealane", *headers]
    if token:
        lines.append(f"authorization: Bearer {TOKEN}")
    if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in headers):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Reply:
    """A response as it was read from a socket."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


def read_reply(connection: socket.socket, rest: bytes = b"") -> tuple[Reply, bytes]:
    """The next response, and what came after it. EOFError if the connection ended before a whole one."""
    data = rest
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, data = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(first.split()[1])
    length = int(headers.get("content-length", 0)) if status != 100 else 0
    while len(data) < length:
        data += _more(connection)
    return Reply(status, headers, data[:length]), data[length:]


def closed(connection: socket.socket) -> bool:
    """Whether the server closes the connection, within the socket's time-out."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise EOFError
    return data
