"""Streams without a server: what is released, when, and what a client that does not read sets going."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from stream_harness import (
    CHUNK,
    MIB,
    Client,
    Recorded,
    forgeries,
    make_key,
    make_stream,
    pieces,
    run,
    same_key,
    sealed,
    settled,
)

from service.errors import AuditUnavailable, DoesNotOpen, KeyDeleted, Malformed, TooLarge, WrongKeyType
from service.keys import MAC_TYPE, PENDING
from service.problems import Problem
from service.spool import Spool
from service.wire import Disconnected


def parts(data: bytes, length: int) -> list[bytes]:
    return [data[at : at + length] for at in range(0, len(data), length)]


SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5, 2 * MIB + 1]
MODES = ["open_verified", "open_by_chunk"]
SEALS = ["seal", "seal_held"]


async def opened(mode: str, spool: Spool, key: Any, body: list[bytes], aad: bytes = b"", **more: Any) -> Client:
    client, length = more.pop("client", None) or Client(body), more.pop("length", None)
    stream = make_stream(client, spool, **more)
    try:
        await getattr(stream, mode)(key, aad, length, same_key)
    finally:
        client.started = stream.outlet.started  # type: ignore[attr-defined]
        await stream.close()
    return client


@pytest.mark.parametrize("type", ["xchacha20-poly1305", "chacha20-poly1305"])
@pytest.mark.parametrize("size", SIZES)
def test_round_trips_in_any_pieces(tmp_path: Path, size: int, type: str) -> None:
    key, plaintext, aad = make_key(type, versions=2), os.urandom(size), os.urandom(5)

    async def work(spool: Spool) -> None:
        for seal in SEALS:
            client, recorded = Client(pieces(plaintext, size) or [b""]), Recorded()
            stream = make_stream(client, spool, recorded)
            await getattr(stream, seal)(key, aad, size)
            await stream.close()
            message = client.answer
            assert message[:8] == bytes((2, 1, 0, 0, 0, 0, 0, 2))
            assert len(message) == 8 + 56 + size + 16 * (size // CHUNK + 1)
            assert client.whole
            assert (b"content-length", b"%d" % len(message)) in client.heads[0]["headers"]
            assert recorded.lines == [("ok", len(message))]
            for mode in MODES:
                for body in ([message], pieces(message, size)):
                    recorded = Recorded()
                    length = len(message) if body == [message] else None
                    client = await opened(mode, spool, key, body, aad, record=recorded, length=length)
                    assert client.answer == plaintext
                    assert client.whole
                    assert recorded.lines[-1] == ("ok", size)
                    # Plaintext that leaves before all is known is on record before it leaves.
                    assert (("begun", 0) in recorded.lines) is (mode == "open_by_chunk" and size >= CHUNK)

    run(tmp_path, work)


@pytest.mark.parametrize("last", [0, 1, 1000, CHUNK - 1])
@pytest.mark.parametrize("mode", MODES)
def test_nothing_forged_is_released(tmp_path: Path, mode: str, last: int) -> None:
    key, plaintext = make_key(), os.urandom(4 * CHUNK + last)
    made = forgeries(sealed(key, plaintext))
    assert len(made) > 20

    async def work(spool: Spool) -> None:
        for what, forged in made.items():
            for body in (
                [forged],
                pieces(forged, last, 20_000),
                [forged[i : i + 997] for i in range(0, len(forged), 997)],
            ):
                client, recorded = Client(body), Recorded()
                with pytest.raises((DoesNotOpen, Malformed)):
                    await opened(mode, spool, key, body, client=client, record=recorded)
                assert ("ok", len(plaintext)) not in recorded.lines, what
                assert not client.whole, what
                if mode == "open_verified":
                    assert not client.heads, what
                    assert not client.read, what
                else:
                    # Only genuine chunks, in order, and never an end.
                    assert plaintext.startswith(client.answer), what
                    assert len(client.answer) % CHUNK == 0, what
                    assert bool(client.heads) is bool(client.answer), what

    run(tmp_path, work)


@pytest.mark.parametrize("last", [0, 1000])
def test_a_forged_stream_never_fills_the_length_that_its_head_promised(tmp_path: Path, last: int) -> None:
    """By chunk and with a length: else a client could not tell that the end of the stream is missing or wrong."""
    key = make_key()
    made = forgeries(sealed(key, os.urandom(3 * CHUNK + last)))

    async def work(spool: Spool) -> None:
        for what, forged in made.items():
            client = Client(parts(forged, 5000))
            stream = make_stream(client, spool)
            with pytest.raises((DoesNotOpen, Malformed)):
                await stream.open_by_chunk(key, b"", len(forged), same_key)
            await stream.close()
            assert not client.whole, what
            if client.heads:
                promised = int(dict(client.heads[0]["headers"])[b"content-length"])
                assert len(client.answer) < promised, what

    run(tmp_path, work)


@pytest.mark.parametrize("mode", MODES)
def test_wrong_key_aad_or_version_is_one_answer_and_comes_at_once(tmp_path: Path, mode: str) -> None:
    key, other = make_key(versions=2), make_key()
    message = sealed(key, bytes(10 * MIB), b"right")

    async def work(spool: Spool) -> None:
        for wrong_key, head, aad in (
            (other, message[:64], b"right"), (key, message[:64], b"wrong"), (key, message[:64], b""),
            (key, message[:7] + b"\x09" + message[8:64], b"right"),
            (key, message[:7] + b"\x01" + message[8:64], b"right"),
        ):  # fmt: skip
            client = Client([head, *[bytes(MIB)] * 10])
            with pytest.raises(DoesNotOpen):
                await opened(mode, spool, wrong_key, [], aad, client=client)
            assert client.fed <= MIB + 64
            assert not client.heads

    run(tmp_path, work)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_no_stream_is_malformed(tmp_path: Path, mode: str) -> None:
    key = make_key()
    message = sealed(key, b"")
    assert len(message) == 80

    async def work(spool: Spool) -> None:
        for length in range(80):
            with pytest.raises(Malformed):
                await opened(mode, spool, key, [message[:length]])
        for head in (
            b"\1\1\0\0\0\0\0\1",
            b"\2\2\0\0\0\0\0\1",
            b"\2\1\0\1\0\0\0\1",
            b"\2\1\0\0\0\0\0\0",
            b"\3\3\0\0\0\0\0\1",
        ):
            with pytest.raises(Malformed):
                await opened(mode, spool, key, [head + message[8:]])

    run(tmp_path, work)


@pytest.mark.parametrize("mode", [*SEALS, *MODES])
def test_keys_that_do_not_serve(tmp_path: Path, mode: str) -> None:
    async def work(spool: Spool) -> None:
        for key, error in ((make_key(MAC_TYPE), WrongKeyType), (make_key(state=PENDING), KeyDeleted)):
            client = Client([sealed(make_key(), b"text")])
            stream = make_stream(client, spool)
            arguments = (key, b"", None) if mode in SEALS else (key, b"", None, same_key)
            with pytest.raises(error):
                await getattr(stream, mode)(*arguments)
            await stream.close()
            assert not client.heads

    run(tmp_path, work)


@pytest.mark.parametrize("mode", ["seal", "open_by_chunk"])
def test_a_client_that_reads_only_after_it_has_sent_all(tmp_path: Path, mode: str) -> None:
    key, plaintext = make_key(), os.urandom(12 * MIB + 3)
    message = sealed(key, plaintext)

    async def work(spool: Spool) -> None:
        data = plaintext if mode == "seal" else message
        client = Client(parts(data, 250_000))
        client.reading.clear()
        stream = make_stream(client, spool)
        arguments = (key, b"", None) if mode in SEALS else (key, b"", None, same_key)
        serving = asyncio.create_task(getattr(stream, mode)(*arguments))
        await client.has_sent(len(data))
        assert spool.reserved > 8 * MIB
        client.reading.set()
        await serving
        await stream.close()
        if mode == "seal":
            client = await opened("open_verified", spool, key, [client.answer])
        assert client.answer == plaintext

    run(tmp_path, work)


def test_what_waits_on_disk_is_ciphertext(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, secret = make_key(), b"a plaintext that nobody may find on a disk"
    plaintext = secret * 200_000
    written = bytearray()
    real = os.pwrite

    def watched(descriptor: int, data: bytes, at: int) -> int:
        written.extend(data)
        return real(descriptor, data, at)

    monkeypatch.setattr("service.spool.os.pwrite", watched)

    async def work(spool: Spool) -> None:
        message = sealed(key, plaintext)
        for mode, data in (
            ("seal", plaintext),
            ("seal_held", plaintext),
            ("open_by_chunk", message),
            ("open_verified", message),
        ):
            before = len(written)
            client = Client(parts(data, 250_000))
            client.reading.clear()
            stream = make_stream(client, spool)
            arguments = (key, b"", None) if mode in SEALS else (key, b"", None, same_key)
            serving = asyncio.create_task(getattr(stream, mode)(*arguments))
            await client.has_sent(len(data))
            client.reading.set()
            await serving
            await stream.close()
            assert len(written) - before > 4 * MIB, mode
            assert secret not in written, mode

    run(tmp_path, work)


@pytest.mark.parametrize("mode", [*SEALS, *MODES])
def test_a_client_that_never_reads_is_dropped(tmp_path: Path, mode: str) -> None:
    key = make_key()

    async def work(spool: Spool) -> None:
        data = bytes(8 * MIB) if mode in SEALS else sealed(key, bytes(8 * MIB))
        client = Client(parts(data, 250_000))
        client.reading.clear()
        stream = make_stream(client, spool, stall=0.5)
        arguments = (key, b"", None) if mode in SEALS else (key, b"", None, same_key)
        began = asyncio.get_running_loop().time()
        with pytest.raises((Problem, Disconnected)):
            await getattr(stream, mode)(*arguments)
        assert 0.4 < asyncio.get_running_loop().time() - began < 5
        assert isinstance(stream.failure, Problem)
        assert stream.failure.type == "body-too-slow"
        await stream.close()
        assert not client.whole

    run(tmp_path, work)


def test_a_full_spool_holds_the_upload_back_until_something_is_read(tmp_path: Path) -> None:
    key = make_key()

    async def work(spool: Spool) -> None:
        client = Client([bytes(250_000)] * 100)
        client.reading.clear()
        stream = make_stream(client, spool)
        serving = asyncio.create_task(stream.seal(key, b"", None))
        assert await settled(lambda: client.fed) < 8 * MIB
        client.reading.set()
        await serving
        await stream.close()
        assert client.fed == 25_000_000
        assert (
            await opened("open_verified", Spool(tmp_path / "other", 64 * MIB, 64 * MIB), key, [client.answer])
        ).whole

    run(tmp_path, work, stream_bytes=4 * MIB)


def test_a_slow_reader_is_served_as_long_as_it_reads(tmp_path: Path) -> None:
    key = make_key()

    async def work(spool: Spool) -> None:
        client = Client([bytes(250_000)] * 30)
        stream = make_stream(client, spool, stall=1.5)
        serving = asyncio.create_task(stream.seal(key, b"", None))
        while not serving.done():
            client.reading.clear()
            await asyncio.sleep(0.1)
            client.reading.set()
            await asyncio.sleep(0)
        await serving
        await stream.close()
        assert client.whole

    run(tmp_path, work)


def test_a_forgery_found_while_the_client_does_not_read(tmp_path: Path) -> None:
    key, plaintext = make_key(), os.urandom(6 * MIB)
    forged = bytearray(sealed(key, plaintext))
    forged[-5 * MIB] ^= 1

    async def work(spool: Spool) -> None:
        client = Client(parts(bytes(forged), 250_000), ends=False)
        stream = make_stream(client, spool)
        serving = asyncio.create_task(stream.open_by_chunk(key, b"", None, same_key))
        await asyncio.sleep(0)
        client.reading.clear()
        await client.has_sent(len(forged))
        client.reading.set()
        with pytest.raises((DoesNotOpen, Disconnected)):
            await serving
        assert isinstance(stream.failure, DoesNotOpen)
        await stream.close()
        assert plaintext.startswith(client.answer)
        assert len(client.answer) <= 1.1 * MIB
        assert not client.whole
        assert client.dropped.is_set()

    run(tmp_path, work)


@pytest.mark.parametrize("mode", [*SEALS, *MODES])
def test_a_client_that_goes_away_in_any_phase(tmp_path: Path, mode: str) -> None:
    key = make_key()

    async def work(spool: Spool) -> None:
        data = bytes(4 * MIB) if mode in SEALS else sealed(key, bytes(4 * MIB))
        body = parts(data, 250_000)
        arguments = (key, b"", None) if mode in SEALS else (key, b"", None, same_key)
        for fed in (0, 64, 250_000, 2 * MIB, len(data)):
            for reads in (True, False):
                client, recorded = Client(body), Recorded()
                if not reads:
                    client.reading.clear()
                stream = make_stream(client, spool, recorded)
                serving = asyncio.create_task(getattr(stream, mode)(*arguments))
                await client.has_sent(fed)
                client.dropped.set()
                await asyncio.wait([serving])
                await stream.close()
                if not (reads and fed == len(data)):
                    assert isinstance(serving.exception(), Disconnected), (fed, reads)
                    assert not client.whole

    run(tmp_path, work)


@pytest.mark.parametrize("mode", [*SEALS, *MODES])
def test_what_cannot_be_recorded_is_not_completed(tmp_path: Path, mode: str) -> None:
    key = make_key()

    async def work(spool: Spool) -> None:
        data = bytes(3 * CHUNK) if mode in SEALS else sealed(key, bytes(3 * CHUNK))
        recorded, client = Recorded(), Client([data])
        recorded.fails = AuditUnavailable()
        stream = make_stream(client, spool, recorded)
        arguments = (key, b"", None) if mode in SEALS else (key, b"", None, same_key)
        with pytest.raises(AuditUnavailable):
            await getattr(stream, mode)(*arguments)
        await stream.close()
        assert not client.whole
        if mode != "seal":
            assert not client.read

    run(tmp_path, work)


def test_a_disk_that_alters_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key()
    real = os.pread

    def altered(descriptor: int, size: int, at: int) -> bytes:
        data = real(descriptor, size, at)
        return data[:-1] + bytes([data[-1] ^ 1]) if at > 2 * MIB else data

    monkeypatch.setattr("service.spool.os.pread", altered)

    async def work(spool: Spool) -> None:
        plaintext = os.urandom(5 * MIB)
        client = Client(
            [sealed(key, plaintext)[i : i + MIB] for i in range(0)] or pieces(sealed(key, plaintext), 1, 400_000)
        )
        stream = make_stream(client, spool)
        with pytest.raises(Exception, match="altered"):
            await stream.open_verified(key, b"", None, same_key)
        await stream.close()
        assert not client.whole
        assert plaintext.startswith(client.answer)

    run(tmp_path, work)


def test_lengths_that_no_stream_has_are_refused_before_the_rest_comes(tmp_path: Path) -> None:
    key = make_key()
    message = sealed(key, bytes(5 * CHUNK))

    async def work(spool: Spool) -> None:
        for length in (80 + 5 * (CHUNK + 16) - 16, 80 + 5 * (CHUNK + 16) - 1, 65, 79):
            for mode in MODES:
                client = Client([message[:64], message[64:]])
                stream = make_stream(client, spool)
                with pytest.raises(DoesNotOpen):
                    await getattr(stream, mode)(key, b"", length, same_key)
                await stream.close()
                assert client.fed == 64
        client = Client([message])
        stream = make_stream(client, spool)
        with pytest.raises(TooLarge):
            await stream.open_verified(key, b"", 65 * MIB, same_key)
        assert client.fed == 0
        with pytest.raises(TooLarge):
            await stream.seal(key, b"", 2**52)
        await stream.close()

    run(tmp_path, work)


def test_exceptions_of_forgeries_keep_no_views_of_ciphertext(tmp_path: Path) -> None:
    """Collected in a cycle, in whatever thread, nested views would crash some interpreters."""
    key = make_key()
    forged = bytearray(sealed(key, bytes(3 * CHUNK)))
    forged[-1] ^= 1

    async def work(spool: Spool) -> None:
        for mode in MODES:
            with pytest.raises(DoesNotOpen) as raised:
                await opened(mode, spool, key, [bytes(forged)])
            assert raised.value.__context__ is None
            assert raised.value.__cause__ is None

    run(tmp_path, work)
    collecting = threading.Thread(target=gc.collect)
    collecting.start()
    collecting.join()
