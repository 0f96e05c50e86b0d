"""`sealane bench http --streams`: one long stream at a time through our service and through an echo that streams, in
turns. The client costs as little as it can: the kernel sends from a file, and what comes back is counted."""

from __future__ import annotations

import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from engine import chunked
from service.bench import servers
from service.bench.processes import ServerFailed
from service.bench.targets import STREAM_TARGETS
from service.formats import HEADER_SIZE

_BUFFER = 1 << 20
_TIMEOUT = 120.0


@dataclass(frozen=True)
class StreamResult:
    """One call. `mib_per_second` of plaintext: median over the rounds. `ratio` to the echo: median of those within each
    round. `growth_mib`: how far the resident memory of any of our processes rose above what it was before, at most."""

    call: str
    mib_per_second: float
    echo_mib_per_second: float
    ratio: float
    growth_mib: float
    target: float

    @property
    def met(self) -> bool:
        return self.ratio >= self.target


def as_record(result: StreamResult) -> dict[str, object]:
    return {**asdict(result), "met": result.met}


@dataclass(frozen=True)
class _Call:
    name: str
    url: str
    token: str
    source: Path
    # Bytes of the answer; None if only its status counts.
    expected: int | None


def run(
    size: int, rounds: int, workers: int, progress: Callable[[str], None] = lambda call: None
) -> list[StreamResult]:
    """Measure every call with `size` bytes of plaintext. ServerFailed when anything goes wrong."""
    with tempfile.TemporaryDirectory(prefix="sealane-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        url, token = stack.enter_context(servers.sealane(folder, workers))
        echo = stack.enter_context(servers.echo(folder, workers))
        plain, sealed = folder / "plain", folder / "sealed"
        _fill(plain, size)
        keys = f"{url}/v1/keys"
        seal = _Call("seal-stream", f"{keys}/demo/seal-stream", token, plain, HEADER_SIZE + chunked.sealed_size(size))
        progress("sealing what is to be opened")
        with sealed.open("wb") as file:
            _transfer(seal, file.fileno())
        by_chunk = f"{keys}/demo/open-stream?release=chunk"
        calls = [
            seal,
            _Call("open-stream?release=chunk", by_chunk, token, sealed, size),
            _Call("open-stream", f"{keys}/demo/open-stream", token, sealed, size),
            _Call("mac", f"{keys}/demo-mac/mac", token, plain, None),
        ]
        port = urlsplit(url).port or 0
        results = []
        for call in calls:
            progress(call.name)
            results.append(_measure(call, echo, size, rounds, port))
        return results


def _measure(call: _Call, echo: str, size: int, rounds: int, port: int) -> StreamResult:
    peer = _Call("echo", f"{echo}/stream", "", call.source, call.source.stat().st_size)
    ours, theirs, growths = [], [], []
    for number in range(rounds + 1):
        for first in ((True, False), (False, True))[number % 2]:
            if first:
                before = _memory(port, "VmRSS")
                ours.append(size / 2**20 / _transfer(call))
                after = _memory(port, "VmHWM")
                growths.append(max((after[pid] - before[pid] for pid in before if pid in after), default=0))
            else:
                theirs.append(size / 2**20 / _transfer(peer))
    # The first round warms up.
    ours, theirs = ours[1:], theirs[1:]
    return StreamResult(
        call=call.name,
        mib_per_second=statistics.median(ours),
        echo_mib_per_second=statistics.median(theirs),
        ratio=statistics.median(mine / echoed for mine, echoed in zip(ours, theirs, strict=True)),
        growth_mib=max(growths) / 1024,
        target=STREAM_TARGETS[call.name],
    )


def _fill(path: Path, size: int) -> None:
    block = os.urandom(_BUFFER)
    with path.open("wb") as file:
        for start in range(0, size, _BUFFER):
            file.write(block[: size - start])


def _transfer(call: _Call, into: int | None = None) -> float:
    """Send the source, read the answer at the same time, into a descriptor if one is given. Seconds."""
    parts = urlsplit(call.url)
    size = call.source.stat().st_size
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: Bearer {call.token}\r\n"
        f"content-type: application/octet-stream\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n"
    )
    if parts.hostname != "127.0.0.1":
        raise ServerFailed("streams are sent to loopback only")
    with socket.create_connection(("127.0.0.1", parts.port or 80), timeout=_TIMEOUT) as connection:
        started = time.perf_counter()
        connection.sendall(head.encode())
        sender = threading.Thread(target=_send, args=(connection, call.source, size), daemon=True)
        sender.start()
        status, received = _receive(connection, into)
        elapsed = time.perf_counter() - started
        sender.join(_TIMEOUT)
    if status != 200 or call.expected not in (None, received):
        raise ServerFailed(f"{call.name} answered {status} with {received} bytes, not 200 with {call.expected}")
    return elapsed


def _send(connection: socket.socket, source: Path, size: int) -> None:
    """Send the file. If the server drops the connection, the receiving side says so."""
    with source.open("rb") as file:
        at = 0
        try:
            while at < size:
                # The socket has a time-out, and so does not block by itself.
                connection.settimeout(_TIMEOUT)
                at += connection.sendfile(file, at, min(8 * _BUFFER, size - at))
        except OSError:
            return


def _receive(connection: socket.socket, into: int | None) -> tuple[int, int]:
    """The status, and how many bytes of the body came until the connection closed."""
    buffer = memoryview(bytearray(_BUFFER))
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(4096)
        if not data:
            raise ServerFailed("a server closed the connection before it answered")
        head += data
    head, _, rest = head.partition(b"\r\n\r\n")
    received = len(rest)
    if into is not None:
        os.write(into, rest)
    while count := connection.recv_into(buffer):
        received += count
        if into is not None:
            os.write(into, buffer[:count])
    return int(head.split()[1]), received


def _memory(port: int, field: str) -> dict[int, int]:
    """KiB by process, of all that serve at `port`: they have it in their environment. Resets the peak."""
    wanted = b"SEALANE_PORT=%d" % port
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            lines = (folder / "status").read_text().splitlines()
            found[int(folder.name)] = next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))
            (folder / "clear_refs").write_text("5")
        except (OSError, StopIteration):
            continue
    return found
