"""Streams as clients of all kinds see them, over a real server: some read as they write, some only afterwards."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import requests
from http_harness import AUTH, OCTETS, TOKEN, Server, ask, closed, read_reply, running_server
from stream_harness import CHUNK, HEAD, MIB, SEALED_CHUNK, program

# More than the buffers of any two sockets: a client that does not read would block if the server did.
SIZE = 24 * MIB + 5
URL = "/v1/keys/demo"

_NODE = """
import {readFileSync, writeFileSync} from 'node:fs';
const [url, token, from, to] = process.argv.slice(2);
const answer = await fetch(url, {method: 'POST', body: readFileSync(from), headers: {
  authorization: `Bearer ${token}`, 'content-type': 'application/octet-stream'}});
const body = Buffer.from(await answer.arrayBuffer());
if (!answer.ok) { console.error(answer.status, body.toString()); process.exit(1); }
writeFileSync(to, body);
"""

Ask = Callable[[str, Path, Path], None]


def curl(url: str, source: Path, target: Path, *more: str) -> None:
    command = [program("curl"), "-sS", "--fail-with-body", "-X", "POST", "-T", str(source), "-o", str(target),
               "-H", f"authorization: Bearer {TOKEN}", "--max-time", "100", *more, url]  # fmt: skip
    subprocess.run(command, check=True, timeout=120)


def curl_chunked(url: str, source: Path, target: Path) -> None:
    curl(url, source, target, "-H", "transfer-encoding: chunked")


def curl_1_0(url: str, source: Path, target: Path) -> None:
    curl(url, source, target, "--http1.0")


def curl_no_continue(url: str, source: Path, target: Path) -> None:
    curl(url, source, target, "-H", "expect:")


def by_httpx(url: str, source: Path, target: Path) -> None:
    with source.open("rb") as file, httpx.stream("POST", url, content=file, headers=OCTETS, timeout=60) as answer:
        assert answer.status_code == 200, answer.read()
        with target.open("wb") as out:
            for piece in answer.iter_bytes():
                out.write(piece)


def by_requests(url: str, source: Path, target: Path) -> None:
    with source.open("rb") as file:
        answer = requests.post(url, data=file, headers=OCTETS, timeout=60)
    assert answer.status_code == 200, answer.text
    target.write_bytes(answer.content)


def by_requests_chunked(url: str, source: Path, target: Path) -> None:
    def parts() -> Iterator[bytes]:
        with source.open("rb") as file:
            while part := file.read(100_000):
                yield part

    answer = requests.post(url, data=parts(), headers=OCTETS, timeout=60)
    assert answer.status_code == 200, answer.text
    target.write_bytes(answer.content)


def node(url: str, source: Path, target: Path) -> None:
    script = target.with_suffix(".mjs")
    script.write_text(_NODE)
    subprocess.run([program("node"), str(script), url, TOKEN, str(source), str(target)], check=True, timeout=120)


CLIENTS: list[Ask] = [
    curl, curl_chunked, curl_1_0, curl_no_continue, by_httpx, by_requests, by_requests_chunked, node,
]  # fmt: skip


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "plain"
    path.write_bytes(os.urandom(SIZE))
    return path


def same(one: Path, other: Path) -> bool:
    return hashlib.sha256(one.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest()


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_round_trip(server: Server, client: Ask, plain: Path, tmp_path: Path) -> None:
    sealed, opened = tmp_path / "sealed", tmp_path / "opened"
    client(f"{server.url}{URL}/seal-stream", plain, sealed)
    assert sealed.stat().st_size == HEAD + SIZE + 16 * (SIZE // CHUNK + 1)
    for query in ("", "?release=chunk"):
        client(f"{server.url}{URL}/open-stream{query}", sealed, opened)
        assert same(opened, plain), query


@pytest.mark.parametrize("client", [curl, by_httpx, node], ids=lambda client: client.__name__)
def test_an_empty_stream(server: Server, client: Ask, tmp_path: Path) -> None:
    empty, sealed, opened = tmp_path / "empty", tmp_path / "sealed", tmp_path / "opened"
    empty.write_bytes(b"")
    client(f"{server.url}{URL}/seal-stream", empty, sealed)
    assert sealed.stat().st_size == 80
    client(f"{server.url}{URL}/open-stream", sealed, opened)
    assert opened.read_bytes() == b""


def seal(server: Server, data: bytes, **headers: str) -> bytes:
    answer = requests.post(f"{server.url}{URL}/seal-stream", data=data, headers={**OCTETS, **headers}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_aad_and_headers(server: Server) -> None:
    aad = base64.b64encode(b"an order").decode()
    sealed = seal(server, b"text", **{"sealane-aad": aad})
    for query in ("", "?release=chunk"):
        url = f"{server.url}{URL}/open-stream{query}"
        good = httpx.post(url, content=sealed, headers={**AUTH, "sealane-aad": aad, "x-request-id": "me"})
        assert good.status_code == 200
        assert good.content == b"text"
        assert good.headers["content-type"] == "application/octet-stream"
        assert good.headers["sealane-key-version"] == "1"
        assert good.headers["x-request-id"] == "me"
        assert good.headers["content-length"] == "4"
        assert good.headers["cache-control"] == "no-store"
        bad = httpx.post(url, content=sealed, headers=AUTH)
        assert bad.status_code == 422
        assert bad.json()["type"] == "urn:sealane:problem:does-not-open"


def test_answers_come_while_the_body_still_does(server: Server) -> None:
    plaintext = os.urandom(3 * CHUNK)
    with server.connect() as connection:
        connection.sendall(ask("POST", f"{URL}/seal-stream", b"", "transfer-encoding: chunked"))
        got = b""
        for number in range(3):
            part = plaintext[number * CHUNK :][:CHUNK]
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            while len(got) < HEAD + (number + 1) * SEALED_CHUNK:
                got += connection.recv(65536)
        connection.sendall(b"0\r\n\r\n")
        while not got.endswith(b"0\r\n\r\n"):
            got += connection.recv(65536)
        # The connection serves on.
        connection.sendall(ask("GET", "/livez"))
        assert read_reply(connection)[0].status == 200


def test_no_answer_comes_before_the_body_where_the_path_is_half_duplex(server: Server) -> None:
    plaintext = os.urandom(5 * MIB)
    sealed = b""
    for operation in ("seal-stream", "open-stream", "open-stream?release=chunk"):
        data = plaintext if operation == "seal-stream" else sealed
        with server.connect() as connection:
            connection.sendall(
                ask("POST", f"{URL}/{operation}", b"", "sealane-duplex: half", f"content-length: {len(data)}")
            )
            connection.sendall(data[:-1])
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(60)
            connection.sendall(data[-1:])
            answer = read_reply(connection)[0]
        assert answer.status == 200
        if operation == "seal-stream":
            sealed = answer.body
        else:
            assert answer.body == plaintext


def test_a_held_answer_is_limited(tmp_path: Path) -> None:
    with running_server(tmp_path, spool_stream_bytes=MIB) as limited:
        for body in (bytes(MIB), iter([bytes(MIB)])):
            answer = httpx.post(
                f"{limited.url}{URL}/seal-stream", content=body, headers={**OCTETS, "sealane-duplex": "half"}
            )
            assert answer.status_code == 413
            assert answer.json()["type"] == "urn:sealane:problem:too-large"


def test_100_continue_comes_before_the_head(server: Server) -> None:
    with server.connect() as connection:
        request = ask("POST", f"{URL}/seal-stream", b"", "expect: 100-continue", "content-length: 5")
        connection.sendall(request)
        assert read_reply(connection)[0].status == 100
        connection.sendall(b"12345")
        reply, _ = read_reply(connection)
        assert reply.status == 200
        assert len(reply.body) == 85
    with server.connect() as connection:
        connection.sendall(request.replace(TOKEN.encode(), b"wrong"))
        assert read_reply(connection)[0].status == 401, "what is refused is not asked for"


@pytest.mark.parametrize(
    ("path", "headers", "status", "slug"),
    [
        ("demo/seal-stream", {"authorization": "Bearer wrong"}, 401, "not-authenticated"),
        ("nothing/seal-stream", {}, 404, "key-not-found"),
        ("demo-mac/seal-stream", {}, 400, "wrong-key-type"),
        ("demo-mac/open-stream", {}, 400, "wrong-key-type"),
        ("demo/seal-stream", {"content-type": "application/json"}, 415, "unsupported-media-type"),
        ("demo/seal-stream", {"content-encoding": "gzip"}, 415, "unsupported-media-type"),
        ("demo/seal-stream", {"sealane-aad": "QR=="}, 400, "malformed"),
        ("demo/seal-stream", {"sealane-duplex": "both"}, 400, "malformed"),
        ("demo/open-stream", {}, 400, "malformed"),
        ("demo/open-stream?release=all", {}, 400, "malformed"),
        ("demo/open-stream?release=chunk&release=chunk", {}, 400, "malformed"),
    ],
)
def test_problems(server: Server, path: str, headers: dict[str, str], status: int, slug: str) -> None:
    for size in (3, 200_000):
        answer = httpx.post(f"{server.url}/v1/keys/{path}", content=bytes(size), headers={**OCTETS, **headers})
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"] == f"urn:sealane:problem:{slug}"


def test_other_methods(server: Server) -> None:
    answer = httpx.get(f"{server.url}{URL}/seal-stream", headers=AUTH)
    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]


def test_http_1_0_without_a_length(server: Server) -> None:
    with server.connect() as connection:
        request = ask("POST", f"{URL}/seal-stream", b"", "transfer-encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0")
        connection.sendall(request + b"3\r\nabc\r\n0\r\n\r\n")
        assert b" 400 " in connection.recv(65536).split(b"\r\n")[0]


def forged(server: Server, size: int = 4 * MIB) -> bytes:
    """A stream of which the very last byte is wrong: that of an empty chunk, for a multiple of 16 KiB."""
    sealed = bytearray(seal(server, bytes(size)))
    sealed[-1] ^= 1
    return bytes(sealed)


def test_a_forged_stream_is_a_problem_and_nothing_else(server: Server) -> None:
    answer = httpx.post(f"{server.url}{URL}/open-stream", content=forged(server), headers=OCTETS, timeout=60)
    assert answer.status_code == 422
    assert len(answer.content) < 1000


@pytest.mark.parametrize("size", [4 * MIB, 4 * MIB + 5, CHUNK])
@pytest.mark.parametrize("chunked", [False, True])
def test_release_by_chunk_breaks_off(server: Server, chunked: bool, size: int, tmp_path: Path) -> None:
    """With a length the answer is too short for it; without, it has no last chunk. Every client notices."""
    data, url = forged(server, size), f"{server.url}{URL}/open-stream?release=chunk"
    got = bytearray()

    def stream() -> None:
        body = iter([data[:MIB], data[MIB:]]) if chunked else data
        with httpx.stream("POST", url, content=body, headers=OCTETS, timeout=60) as answer:
            assert ("content-length" in answer.headers) is not chunked
            for piece in answer.iter_raw():
                got.extend(piece)

    if size == CHUNK and not chunked:
        # Nothing can be released before its end is known, and so there is a proper answer.
        assert httpx.post(url, content=data, headers=OCTETS).status_code == 422
        return
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        stream()
    assert len(got) < size or (chunked and len(got) == size)
    with pytest.raises((requests.exceptions.ChunkedEncodingError, requests.exceptions.ConnectionError)):
        requests.post(url, data=iter([data]) if chunked else data, headers=OCTETS, timeout=60)
    source = tmp_path / "forged"
    source.write_bytes(data)
    for client in (curl_chunked if chunked else curl, node):
        with pytest.raises(subprocess.CalledProcessError):
            client(url, source, tmp_path / "opened")
    assert server.process.poll() is None
    assert "without completing" not in server.log()


def test_metrics_and_audit(server: Server) -> None:
    sealed = seal(server, bytes(MIB))
    httpx.post(
        f"{server.url}{URL}/open-stream?release=chunk", content=sealed, headers={**OCTETS, "x-request-id": "one"}
    )
    httpx.post(f"{server.url}{URL}/open-stream", content=forged(server), headers={**OCTETS, "x-request-id": "two"})
    folder = server.log_path.parent
    lines = [json.loads(line) for line in (folder / "audit").read_text().splitlines()]
    by_id = {wanted: [line for line in lines if line.get("request_id") == wanted] for wanted in ("one", "two")}
    assert [line["outcome"] for line in by_id["one"]][-2:] == ["begun", "ok"]
    whole = {"action": "open-stream", "key": "demo", "version": 1, "bytes_in": len(sealed), "bytes_out": MIB}
    assert whole.items() <= by_id["one"][-1].items()
    assert by_id["two"][-1]["outcome"] == "does-not-open"
    metrics = httpx.get(f"{server.url}/metrics").text
    for line in (
        'sealane_calls_total{form="raw",operation="seal-stream",outcome="ok"}',
        'sealane_calls_total{form="raw",operation="open-stream",outcome="does-not-open"}',
        "sealane_spool_bytes 0.0",
    ):
        assert line in metrics


def test_small_streams_use_no_disk(server: Server) -> None:
    sealed = seal(server, b"small")
    with httpx.Client(headers=OCTETS) as client:
        for _ in range(200):
            assert client.post(f"{server.url}{URL}/open-stream", content=sealed).content == b"small"


def test_pipelined_and_kept_alive(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(ask("POST", f"{URL}/seal-stream", b"one") + ask("POST", f"{URL}/seal-stream", b"three"))
        first, rest = read_reply(connection)
        second, rest = read_reply(connection, rest)
        assert (len(first.body), len(second.body)) == (83, 85)
        connection.sendall(ask("POST", f"{URL}/seal-stream", b"", "connection: close"))
        third, _ = read_reply(connection, rest)
        assert len(third.body) == 80
        assert closed(connection)


def test_a_client_that_stalls_while_it_reads_and_while_it_writes(server: Server) -> None:
    """Body time-out is 5 s: pauses below it are waited for, in both directions."""
    data = os.urandom(8 * MIB)
    with server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.sendall(ask("POST", f"{URL}/seal-stream", b"", f"content-length: {len(data)}"))
        half = len(data) // 2
        connection.sendall(data[:half])
        threading.Event().wait(2)
        connection.sendall(data[half:])
        threading.Event().wait(2)
        reply, _ = read_reply(connection)
        assert reply.status == 200
    opened = httpx.post(f"{server.url}{URL}/open-stream", content=reply.body, headers=OCTETS, timeout=60)
    assert opened.content == data
