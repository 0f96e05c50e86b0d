"""Streams and uploads through the client, over connections that break, against a real server."""

from __future__ import annotations

import asyncio
import io
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from cli_harness import Server
from flaky_proxy import flaky

from service import client as sealane
from service.client import AsyncClient, Client
from service.client.data import Data

MESSAGE = random.Random("streams").randbytes(3_000_000)


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, server.token) as client:
        yield client


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.client.uploads.SEGMENT", 700_000)


def pieces() -> Iterator[bytes]:
    for start in range(0, len(MESSAGE), 99_999):
        yield MESSAGE[start : start + 99_999]


def pipe() -> io.BufferedReader:
    reader, writer = os.pipe()

    def write() -> None:
        with open(writer, "wb") as file:
            file.write(MESSAGE)

    threading.Thread(target=write).start()
    return open(reader, "rb")


@pytest.mark.parametrize(
    "data",
    [lambda: MESSAGE, lambda: memoryview(MESSAGE), pieces, lambda: io.BytesIO(MESSAGE), pipe],
    ids=["bytes", "memoryview", "pieces", "file in memory", "pipe"],
)
def test_round_trips(client: Client, data: Callable[[], Data]) -> None:
    with client.seal_stream("demo", data(), b"aad") as stream:
        sealed = b"".join(stream)
        assert stream.key_version == 1
    assert sealed[:8] == b"\2\1\0\0\0\0\0\1"
    assert len(sealed) == 8 + 56 + len(MESSAGE) + 16 * (len(MESSAGE) // 16384 + 1)
    for release in (None, "chunk"):
        with client.open_stream("demo", sealed, b"aad", release=release) as stream:
            assert b"".join(stream) == MESSAGE
    made = client.mac_upload("demo-mac", data())
    assert client.verify("demo-mac", made.mac, data())


def test_a_file_goes_on_from_where_it_stands(client: Client, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"skipped" + MESSAGE)
    for call in (client.seal_stream, client.mac_upload):
        with (tmp_path / "data").open("rb") as file:
            file.read(7)
            result = call("demo" if call == client.seal_stream else "demo-mac", file)
            if isinstance(result, sealane.Mac):
                assert client.verify("demo-mac", result.mac, MESSAGE)
            else:
                sealed = b"".join(result)
                assert b"".join(client.open_stream("demo", sealed)) == MESSAGE


def test_what_does_not_open(client: Client) -> None:
    sealed = b"".join(client.seal_stream("demo", MESSAGE))
    flipped = bytearray(sealed)
    flipped[1_500_000] ^= 1
    for forged in (sealed[:-1], sealed[: 64 + 16400 * 3], sealed + b"\0", bytes(flipped)):
        with pytest.raises(sealane.DoesNotOpen):
            client.open_stream("demo", forged)
        came = b""
        with pytest.raises((httpx.TransportError, sealane.DoesNotOpen)):  # noqa: PT012
            for piece in client.open_stream("demo", forged, release="chunk"):
                came += piece
        assert MESSAGE.startswith(came)
        assert len(came) % 16384 == 0
        assert len(came) < len(MESSAGE)
    with pytest.raises(sealane.DoesNotOpen):
        client.open_stream("demo", sealed, b"other aad")


def test_refusals_while_a_body_is_on_its_way(server: Server, client: Client) -> None:
    with Client(server.url, "sealane_wrong_token") as stranger, pytest.raises(sealane.NotAuthenticated):
        stranger.seal_stream("demo", (MESSAGE for _ in range(10)))
    with pytest.raises(sealane.WrongKeyType):
        client.seal_stream("demo-mac", b"")
    with pytest.raises(sealane.WrongKeyType):
        client.mac_upload("demo", b"")
    with pytest.raises(sealane.UploadNotFound):
        client.mac_upload("demo-mac", b"", resume="nosuchupload")


BUDGETS = [100, 250_000, 3_000, 900_000, 10, 400, 1_000_000, 123_456, 600_000]


@pytest.mark.usefixtures("small_segments")
def test_an_upload_survives_broken_connections(server: Server, client: Client) -> None:
    positions: list[int] = []
    with flaky(server.url, BUDGETS) as proxy, Client(proxy.url, server.token) as unlucky:
        made = unlucky.mac_upload("demo-mac", pieces(), progress=positions.append)  # pieces come but once
        assert proxy.cuts == len(BUDGETS)
        assert unlucky.verify_upload("demo-mac", made.mac, pipe())
    assert client.verify("demo-mac", made.mac, MESSAGE)
    assert positions[-1] == len(MESSAGE)


@pytest.mark.usefixtures("small_segments")
def test_an_upload_survives_broken_connections_asynchronously(server: Server, client: Client) -> None:
    async def part(data: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(data), 99_999):
            yield data[start : start + 99_999]

    async def work() -> None:
        with flaky(server.url, BUDGETS) as proxy:
            async with AsyncClient(proxy.url, server.token) as unlucky:
                made = await unlucky.mac_upload("demo-mac", part(MESSAGE))
                assert proxy.cuts == len(BUDGETS)
                assert await unlucky.verify_upload("demo-mac", made.mac, pipe())
        assert client.verify("demo-mac", made.mac, MESSAGE)

    asyncio.run(work())


class LosesAnswers(httpx.HTTPTransport):
    """Requests arrive; the answers to these ones, counted from 0, do not."""

    def __init__(self, *lost: int) -> None:
        super().__init__()
        self._lost, self._count = lost, -1

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        self._count += 1
        if self._count in self._lost:
            response.read()
            raise httpx.ReadError("lost", request=request)
        return response


@pytest.mark.parametrize("lost", range(6))
@pytest.mark.usefixtures("small_segments")
def test_any_answer_may_get_lost(server: Server, client: Client, lost: int) -> None:
    """Create, four appends that are full and the last one: of that the result is asked for."""
    with Client(server.url, server.token, transport=LosesAnswers(lost)) as unlucky:
        made = unlucky.mac_upload("demo-mac", MESSAGE)
    assert client.verify("demo-mac", made.mac, MESSAGE)


@pytest.mark.usefixtures("small_segments")
def test_another_process_goes_on(server: Server, client: Client) -> None:
    ids: list[str] = []

    def dying() -> Iterator[bytes]:
        yield MESSAGE[:1_600_000]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.mac_upload("demo-mac", dying(), started=ids.append)
    sent: list[int] = []
    for data in (pieces(), io.BytesIO(MESSAGE), MESSAGE):  # the second and third find it complete
        with Client(server.url, server.token) as other:
            made = other.mac_upload("demo-mac", data, resume=ids[0], progress=sent.append)
        assert client.verify("demo-mac", made.mac, MESSAGE)
    assert sent[0] >= 1_400_000  # whole segments of the first were not sent again


def test_patience_ends(server: Server) -> None:
    with flaky(server.url, []) as proxy:
        url = proxy.url
    with Client(url, server.token) as lonely:
        started = time.monotonic()
        with pytest.raises(httpx.ConnectError):
            lonely.mac_upload("demo-mac", MESSAGE, patience=1.0)
        assert 0.9 < time.monotonic() - started < 10


def test_an_abandoned_upload_is_gone(client: Client) -> None:
    ids: list[str] = []

    def dying() -> Iterator[bytes]:
        yield b"beginning"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.mac_upload("demo-mac", dying(), started=ids.append)
    client.abandon_upload(ids[0])
    with pytest.raises(sealane.UploadNotFound):
        client.mac_upload("demo-mac", MESSAGE, resume=ids[0])


def test_streams_asynchronously(server: Server) -> None:
    async def work() -> None:
        async with AsyncClient(server.url, server.token) as client:
            for data in (MESSAGE, io.BytesIO(MESSAGE), pipe(), pieces()):
                async with await client.seal_stream("demo", data) as stream:
                    sealed = b"".join([piece async for piece in stream])
                    assert stream.key_version == 1
                async with await client.open_stream("demo", sealed) as stream:
                    assert b"".join([piece async for piece in stream]) == MESSAGE
            with pytest.raises(sealane.DoesNotOpen):
                await client.open_stream("demo", sealed[:-1])
            stream = await client.open_stream("demo", sealed[:-1], release="chunk")
            with pytest.raises(httpx.TransportError):
                async for _ in stream:
                    pass

    asyncio.run(work())
