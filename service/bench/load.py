"""Load generators: wrk where it is installed, else one on asyncio. Loopback only, bounded in time."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit


class LoadFailed(Exception):
    """A run with any error or any answer but 2xx: its figure would mean nothing."""


@dataclass(frozen=True)
class Request:
    """One HTTP request that is sent again and again."""

    url: str
    headers: dict[str, str]
    body: bytes
    method: str = "POST"


@dataclass(frozen=True)
class Figures:
    """What one run showed. Latencies are in milliseconds."""

    requests_per_second: float
    p50: float
    p90: float
    p99: float
    p999: float


class Load(Protocol):
    """A load generator, with the name that a report states."""

    @property
    def name(self) -> str: ...

    def run(self, request: Request, connections: int, seconds: float) -> Figures:
        """Send `request` over `connections` kept-alive connections for `seconds`. LoadFailed on any error."""
        ...


def _check_loopback(url: str) -> None:
    if urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
        raise LoadFailed("load is sent to loopback only")


_LUA = """
local file = assert(io.open("{body}", "rb"))
wrk.body = file:read("*a")
file:close()
wrk.method = "{method}"
{headers}
function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '\\nRESULT {{"seconds":%f,"requests":%d,"failed":%d,"p50":%f,"p90":%f,"p99":%f,"p999":%f}}\\n',
    summary.duration / 1e6, summary.requests, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
    latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3))
end
"""


class Wrk:
    """wrk with one thread, the request made once by a Lua script."""

    name = "wrk -t1"

    def __init__(self, program: str) -> None:
        self._program = program

    def run(self, request: Request, connections: int, seconds: float) -> Figures:
        _check_loopback(request.url)
        with tempfile.TemporaryDirectory(prefix="sealane-bench-") as folder:
            body, script = Path(folder, "body"), Path(folder, "request.lua")
            body.write_bytes(request.body)
            headers = "\n".join(f"wrk.headers[{json.dumps(k)}] = {json.dumps(v)}" for k, v in request.headers.items())
            script.touch(mode=0o600)  # it holds a token
            script.write_text(_LUA.format(body=body, method=request.method, headers=headers))
            duration = max(1, round(seconds))
            options = ["-t1", f"-c{connections}", f"-d{duration}s", "--timeout", "10s", "-s", str(script)]
            done = subprocess.run(
                [self._program, *options, request.url],
                capture_output=True,
                text=True,
                timeout=duration + 30,
                check=False,
            )
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if done.returncode or not lines:
            raise LoadFailed(f"wrk exited with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
        result = json.loads(lines[0].removeprefix("RESULT "))
        if result["failed"] or not result["requests"]:
            raise LoadFailed(f"{result['failed']} of {result['requests']} requests failed")
        return Figures(
            result["requests"] / result["seconds"], result["p50"], result["p90"], result["p99"], result["p999"]
        )


@dataclass
class _Counts:
    deadline: float
    latencies: list[float] = field(default_factory=list)
    failure: str | None = None


class _Connection(asyncio.Protocol):
    """One kept-alive connection: the next request goes out when the answer to the last one is complete."""

    def __init__(self, wire: bytes, counts: _Counts, closed: asyncio.Future[None]) -> None:
        self._wire, self._counts, self._closed = wire, counts, closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        import httptools

        self._parser = httptools.HttpResponseParser(self)
        self._sent = time.perf_counter()
        self._transport.write(self._wire)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        now = time.perf_counter()
        if not 200 <= self._parser.get_status_code() < 300:
            self._counts.failure = f"an answer had status {self._parser.get_status_code()}"
        self._counts.latencies.append(now - self._sent)
        if self._counts.failure or now >= self._counts.deadline:
            self._counts.deadline = 0  # an end that we chose: connection_lost is no failure then
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if time.perf_counter() < self._counts.deadline:
            self._counts.failure = self._counts.failure or "a connection was closed early"
        if not self._closed.done():
            self._closed.set_result(None)


class Asyncio:
    """The built-in generator: one process on asyncio. For small requests it is itself the limit, and says so."""

    name = "built-in asyncio (no wrk found; it limits small requests itself)"

    def run(self, request: Request, connections: int, seconds: float) -> Figures:
        _check_loopback(request.url)
        try:
            return asyncio.run(self._run(request, connections, seconds))
        except OSError as error:
            raise LoadFailed(f"cannot connect: {error.strerror or error}") from None

    async def _run(self, request: Request, connections: int, seconds: float) -> Figures:
        parts = urlsplit(request.url)
        fields = {"Host": parts.netloc, "Content-Length": str(len(request.body)), **request.headers}
        head = f"{request.method} {parts.path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items())
        wire = head.encode("ascii") + b"\r\n" + request.body
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        counts = _Counts(started + seconds)
        ends: list[asyncio.Future[None]] = []
        for _ in range(connections):
            closed: asyncio.Future[None] = loop.create_future()
            ends.append(closed)
            connection = partial(_Connection, wire, counts, closed)
            await loop.create_connection(connection, parts.hostname or "127.0.0.1", parts.port or 80)
        _, late = await asyncio.wait(ends, timeout=seconds + 30)
        taken = time.perf_counter() - started
        if late or counts.failure or not counts.latencies:
            raise LoadFailed(counts.failure or "a connection never ended")
        latencies = sorted(counts.latencies)
        percentiles = (latencies[len(latencies) * part // 1000] * 1e3 for part in (500, 900, 990, 999))
        return Figures(len(latencies) / taken, *percentiles)


def best_generator() -> Load:
    """wrk if it is on the path, else the built-in one. LoadFailed when that one lacks httptools."""
    if program := shutil.which("wrk"):
        return Wrk(program)
    try:
        import httptools  # noqa: F401
    except ImportError:
        raise LoadFailed("a load generator is needed: install wrk, or httptools for the built-in one") from None
    return Asyncio()
