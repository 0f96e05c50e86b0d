"""Both load generators count right answers, and refuse to give a figure when anything goes wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from service.bench.load import Asyncio, Load, LoadFailed, Request, Wrk
from service.bench.processes import free_port
from service.bench.servers import echo


class _Faulty(BaseHTTPRequestHandler):
    """Answers 503, or closes without an answer, as the path says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/closes":
            self.close_connection = True
            return
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a load run would print thousands of lines."""


def _generators() -> list[Load]:
    wrk = shutil.which("wrk")
    return [Asyncio(), *([Wrk(wrk)] if wrk else [])]


@pytest.fixture(params=_generators(), ids=lambda load: type(load).__name__)
def load(request: pytest.FixtureRequest) -> Load:
    if isinstance(request.param, Asyncio):
        pytest.importorskip("httptools")
    generator: Load = request.param
    return generator


@pytest.fixture(scope="module")
def echo_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with echo(tmp_path_factory.mktemp("echo"), workers=1) as url:
        yield url


@pytest.fixture(scope="module")
def faulty_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Faulty) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("size", [0, 64, 1 << 20])
def test_counts_and_latencies(load: Load, echo_url: str, size: int) -> None:
    figures = load.run(Request(f"{echo_url}/path", {"Content-Type": "text/plain"}, bytes(size)), 2, 1)
    assert figures.requests_per_second > 20
    assert 0 < figures.p50 <= figures.p99 < 1000


@pytest.mark.parametrize("path", ["/503", "/closes"])
def test_faulty_answers_give_no_figure(load: Load, faulty_url: str, path: str) -> None:
    with pytest.raises(LoadFailed):
        load.run(Request(faulty_url + path, {}, b"x"), 1, 1)


def test_no_server_gives_no_figure(load: Load) -> None:
    with pytest.raises(LoadFailed):
        load.run(Request(f"http://127.0.0.1:{free_port()}/", {}, b""), 1, 1)


def test_loopback_only(load: Load) -> None:
    with pytest.raises(LoadFailed, match="loopback"):
        load.run(Request("http://192.0.2.1/", {}, b""), 1, 1)
