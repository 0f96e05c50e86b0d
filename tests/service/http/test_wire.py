"""What a client may do to a connection, against a real server."""

from __future__ import annotations

import json
import os
import threading
import time

import httpx
import pytest
from http_harness import AUTH, OCTETS, TOKEN, Server, ask, closed, read_reply

SEAL = "/v1/keys/demo/seal"
RAW = "content-type: application/octet-stream"
CHUNKED = "transfer-encoding: chunked"


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def is_problem(body: bytes, slug: str) -> bool:
    return bool(json.loads(body)["type"] == f"urn:sealane:problem:{slug}")


@pytest.mark.parametrize("size", [0, 64, 8192, 65536, 700_000])
def test_whole_and_chunked_bodies(server: Server, size: int) -> None:
    body = os.urandom(size)
    with server.connect() as connection:
        for request in (ask("POST", SEAL, body, RAW), ask("POST", SEAL, b"", RAW, CHUNKED) + chunked(body, 3001)):
            connection.sendall(request)
            reply, rest = read_reply(connection)
            assert reply.status == 200
            assert not rest
            connection.sendall(ask("POST", "/v1/keys/demo/open", reply.body, RAW))
            assert read_reply(connection)[0].body == body


def test_byte_by_byte(server: Server) -> None:
    with server.connect() as connection:
        for byte in ask("POST", SEAL, b"hello", RAW):
            connection.sendall(bytes([byte]))
        assert read_reply(connection)[0].status == 200


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    bodies = [b"%d" % index for index in range(20)]
    with server.connect() as connection:
        connection.sendall(b"".join(ask("POST", SEAL, body, RAW) for body in bodies) + ask("GET", "/livez"))
        rest, sealed = b"", []
        for _ in bodies:
            reply, rest = read_reply(connection, rest)
            sealed.append(reply.body)
        assert read_reply(connection, rest)[0].body == b'{"status":"ok","checks":{}}'
    for body, message in zip(bodies, sealed, strict=True):
        opened = httpx.post(f"{server.url}/v1/keys/demo/open", content=message, headers=OCTETS)
        assert opened.content == body


def test_a_client_that_asks_before_it_sends(server: Server) -> None:
    with server.connect() as connection:
        request = ask("POST", SEAL, b"hello", RAW, "expect: 100-continue")
        connection.sendall(request[:-5])
        first, rest = read_reply(connection)
        assert (first.status, rest) == (100, b"")
        connection.sendall(b"hello")
        assert read_reply(connection)[0].status == 200
    with server.connect() as connection:
        # Too large: it is told at once, and need not send.
        connection.sendall(ask("POST", SEAL, b"", RAW, "expect: 100-continue", "content-length: 99999999"))
        assert read_reply(connection)[0].status == 413
        assert closed(connection)


def test_http_1_0_and_connection_close(server: Server) -> None:
    for request in (
        ask("POST", SEAL, b"x", RAW, "connection: close"),
        ask("POST", SEAL, b"x", RAW).replace(b"HTTP/1.1", b"HTTP/1.0"),
    ):
        with server.connect() as connection:
            connection.sendall(request)
            reply, rest = read_reply(connection)
            assert (reply.status, len(reply.body), rest) == (200, 49, b"")
            assert reply.headers["connection"] == "close"
            assert closed(connection)


def test_no_body_at_all_is_an_empty_one(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(ask("POST", SEAL, b"", RAW).replace(b"content-length: 0\r\n", b""))
        assert read_reply(connection)[0].status == 200


@pytest.mark.parametrize("over", [1, 100_000, 40_000_000])
def test_a_body_over_the_limit_is_refused_at_once(server: Server, over: int) -> None:
    limit = 2**20
    with server.connect() as connection:
        connection.sendall(ask("POST", SEAL, b"", RAW, f"content-length: {limit + over}"))
        reply, _ = read_reply(connection)
        assert reply.status == 413
        assert is_problem(reply.body, "too-large")
        assert json.loads(reply.body)["limit"] == limit
        # The answer is whole before a byte of the body was sent; what is sent now is taken in, then it closes.
        connection.sendall(bytes(limit + over))
        assert closed(connection)
    with server.connect() as connection:
        connection.sendall(ask("POST", SEAL, b"", RAW, CHUNKED) + b"%x\r\n" % (limit + over))
        connection.sendall(bytes(limit + 1))
        reply, _ = read_reply(connection)
        assert reply.status == 413
    # The limit itself is served.
    answer = httpx.post(f"{server.url}{SEAL}", content=bytes(limit), headers=OCTETS)
    assert (answer.status_code, len(answer.content)) == (200, limit + 48)


@pytest.mark.parametrize("client", ["httpx", "chunks"])
def test_clients_that_write_first_get_the_refusal(server: Server, client: str) -> None:
    body = bytes(8 * 2**20)
    content = body if client == "httpx" else (body[start : start + 65536] for start in range(0, len(body), 65536))
    answer = httpx.post(f"{server.url}{SEAL}", content=content, headers=OCTETS)
    assert answer.status_code == 413
    answer = httpx.post(f"{server.url}{SEAL}", content=body, headers={"content-type": "application/octet-stream"})
    assert answer.status_code == 401


def test_a_body_that_stalls_is_given_up(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(ask("POST", SEAL, b"", RAW, "content-length: 100") + b"only this")
        begun = time.monotonic()
        reply, _ = read_reply(connection)
        assert reply.status == 408
        assert is_problem(reply.body, "body-too-slow")
        assert reply.headers["connection"] == "close"
        assert 0.9 < time.monotonic() - begun < 8
        assert closed(connection)


def test_a_body_that_trickles_is_given_up(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(ask("POST", "/v1/keys/demo-mac/mac", b"", RAW, CHUNKED))
        stop = threading.Event()

        def trickle() -> None:
            while not stop.wait(0.2):
                try:
                    connection.sendall(b"1\r\nx\r\n")
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            assert read_reply(connection)[0].status == 408
        finally:
            stop.set()
            thread.join()


def test_a_management_body_that_stalls_is_given_up(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(ask("POST", "/v1/tokens", b"", "content-type: application/json", "content-length: 50"))
        assert read_reply(connection)[0].status == 408


def test_a_head_that_stalls_is_given_up(server: Server) -> None:
    with server.connect() as idle, server.connect() as begun, server.connect() as later:
        begun.sendall(b"POST /v1/keys/demo/seal HTTP/1.1\r\nhost: x\r\n")
        later.sendall(ask("GET", "/livez"))
        assert read_reply(later)[0].status == 200
        later.sendall(b"GET /livez HT")
        assert closed(idle)
        for connection in (begun, later):
            data = connection.recv(65536)
            assert data == b"" or data.startswith(b"HTTP/1.1 408 ")


def test_a_client_that_goes_away_in_mid_body(server: Server) -> None:
    for _ in range(5):
        with server.connect() as connection:
            connection.sendall(ask("POST", SEAL, b"", RAW, "content-length: 1000") + b"some")
    time.sleep(0.2)
    text = httpx.get(f"{server.url}/metrics").text
    assert 'outcome="client-closed"' in text
    assert httpx.post(f"{server.url}{SEAL}", content=b"x", headers=OCTETS).status_code == 200


@pytest.mark.parametrize(
    "request_",
    [
        b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"GET /CANARY\x00 HTTP/1.1\r\n\r\n",
        b"POST /v1/keys/demo/seal HTTP/1.1\r\nhost: x\r\ncontent-length: CANARY\r\n\r\n",
        b"POST /v1/keys/demo/seal HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/keys/demo/seal HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"POST /v1/keys/demo/seal HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nCANARY\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_not_http_is_a_problem_and_closes(server: Server, request_: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(request_)
        reply, _ = read_reply(connection)
        assert reply.status == 400
        assert reply.headers["content-type"] == "application/problem+json"
        assert is_problem(reply.body, "malformed")
        assert b"CANARY" not in reply.body
        assert closed(connection)


def test_more_than_content_length_says(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(ask("POST", SEAL, b"hello", RAW, "content-length: 3"))
        # The request is served as it was announced; what follows is no request, so the connection ends.
        assert len(read_reply(connection)[0].body) == 51
        assert closed(connection)


def test_unread_bodies_do_not_keep_a_connection_open(server: Server) -> None:
    """An answer that comes before the body is followed by the end of the connection, unless little is left."""
    with server.connect() as connection:
        connection.sendall(ask("POST", SEAL, b"x" * 100, RAW, token=False) + ask("GET", "/livez"))
        reply, rest = read_reply(connection)
        assert reply.status == 401
        assert read_reply(connection, rest)[0].status == 200
    with server.connect() as connection:
        connection.sendall(ask("POST", "/nothing", b"", "content-length: 900000"))
        reply, _ = read_reply(connection)
        assert reply.status == 404
        assert reply.headers["connection"] == "close"
        connection.sendall(bytes(900000))
        assert closed(connection)


def test_head_has_no_body(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(ask("HEAD", "/livez") + ask("GET", "/livez"))
        data = b""
        while data.count(b"HTTP/1.1 200") < 2 or not data.endswith(b"}"):
            data += connection.recv(65536)
        assert data.count(b'{"status"') == 1


def test_an_upgrade_is_ignored(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(ask("GET", "/livez", b"", "connection: upgrade", "upgrade: websocket"))
        assert read_reply(connection)[0].status == 200


def test_unix_line_of_tokens(server: Server) -> None:
    """The scheme's case does not matter, and a token works whichever way the header is spelled."""
    for scheme in ("Bearer", "bearer", "BEARER"):
        answer = httpx.post(
            f"{server.url}{SEAL}", content=b"", headers={**OCTETS, "authorization": f"{scheme} {TOKEN}"}
        )
        assert answer.status_code == 200
    assert httpx.get(f"{server.url}/v1/engine", headers=AUTH).status_code == 200


def test_a_mac_of_a_long_body_needs_no_memory(server: Server) -> None:
    def resident() -> int:
        with open(f"/proc/{server.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def pieces(count: int) -> object:
        piece = bytes(2**18)
        return (piece for _ in range(count))

    httpx.post(f"{server.url}/v1/keys/demo-mac/mac", content=pieces(8), headers=OCTETS)  # type: ignore[arg-type]
    before = resident()
    answer = httpx.post(f"{server.url}/v1/keys/demo-mac/mac", content=pieces(1024), headers=OCTETS)  # type: ignore[arg-type]
    assert answer.status_code == 200
    assert resident() - before < 16 * 2**20


def test_two_hundred_connections_at_once(server: Server) -> None:
    connections = [server.connect() for _ in range(200)]
    try:
        for connection in connections:
            connection.sendall(ask("POST", SEAL, b"x" * 100, RAW))
        for connection in connections:
            assert read_reply(connection)[0].status == 200
    finally:
        for connection in connections:
            connection.close()
