"""How streams and runs of chunks are used: arguments, limits, threads, forks, copies."""

from __future__ import annotations

import copy
import os
import pickle
import re
import threading
import time
from typing import Any

import chunked_oracle
import oracle
import pytest
from test_threads_and_forks import THREADS, slow, together

import engine
from engine import chunked
from engine.protocol import MAX_CHUNKS

pytestmark = pytest.mark.usefixtures("implementation")
KEY, NONCE = oracle.KEY, oracle.data("base nonce", 12)
C, S = chunked.CHUNK_SIZE, chunked.SEALED_CHUNK_SIZE
MESSAGE = oracle.data("chunks", 2 * C + 100)


def aead() -> engine.Aead:
    return engine.Aead(KEY, "chacha20-poly1305")


def nonce(index: int) -> bytes:
    return (int.from_bytes(NONCE, "big") ^ index).to_bytes(12, "big")


@pytest.mark.parametrize("index", [0, 1, 255, 256, 2**32 - 1, 2**32, MAX_CHUNKS - 2])
def test_a_run_of_chunks_is_what_seal_gives(index: int) -> None:
    ours, size = aead(), C + 50
    sealed = ours.seal_chunks(NONCE, index, MESSAGE[:size], True)
    assert sealed == ours.seal(nonce(index), MESSAGE[:C]) + ours.seal(nonce(index + 1), MESSAGE[C:size])
    assert ours.open_chunks(NONCE, index, sealed, last=True) == MESSAGE[:size]
    assert ours.verify_chunks(NONCE, index, [sealed[:5], b"", sealed[5:]], last=True) is None
    assert ours.seal_chunks(NONCE, index, MESSAGE[:C]) == sealed[:S]
    assert ours.open_chunks(base_nonce=NONCE, index=index, sealed=sealed[:S]) == MESSAGE[:C]


def test_nonces_of_24_bytes_serve_as_well() -> None:
    ours, base = engine.Aead(KEY), oracle.data("long base nonce", 24)
    second = (int.from_bytes(base, "big") ^ 3).to_bytes(24, "big")
    sealed = ours.seal_chunks(base, 3, b"text", last=True)
    assert sealed == ours.seal(second, b"text")
    assert ours.open_chunks(base, 3, sealed, last=True) == b"text"


def test_no_chunks_are_none() -> None:
    assert aead().seal_chunks(NONCE, 0, b"") == aead().open_chunks(NONCE, 0, []) == b""
    assert aead().verify_chunks(NONCE, MAX_CHUNKS, b"") is None


def test_pieces_may_end_anywhere() -> None:
    cuts = (0, 1, 63, C - 1, C, C + 1, 2 * C, len(MESSAGE))
    whole = aead().seal_chunks(NONCE, 0, MESSAGE, True)
    for first in cuts[:3] if slow() else cuts:
        for second in cuts[3:]:
            for data, method in ((MESSAGE, aead().seal_chunks), (whole, aead().open_chunks)):
                parts = [b"", data[:first], bytearray(data[first:second]), memoryview(data)[max(first, second) :], b""]
                assert method(NONCE, 0, parts, True) == (whole if data is MESSAGE else MESSAGE)
    sealed = bytearray(whole)
    sealed[S + 5] ^= 1
    for method in (aead().open_chunks, aead().verify_chunks):
        with pytest.raises(engine.InvalidTag):
            method(NONCE, 0, [sealed[: S - 3], sealed[S - 3 : S + 9], sealed[S + 9 :]], True)


WRONG: list[tuple[str, tuple[Any, ...], type[Exception], str]] = [
    ("seal_chunks", (NONCE[:11], 0, b""), ValueError, "base_nonce must be 12 bytes, not 11"),
    ("seal_chunks", ("nonce", 0, b""), TypeError, "base_nonce must be bytes-like, not str"),
    ("seal_chunks", (NONCE, "0", b""), TypeError, "index must be an int, not str"),
    ("seal_chunks", (NONCE, -1, b""), ValueError, "index must be from 0 to 274877906944, not -1"),
    ("seal_chunks", (NONCE, MAX_CHUNKS, b"", True), ValueError, "index must be from 0 to 274877906943"),
    ("seal_chunks", (NONCE, 2**70, b""), ValueError, "index must be from 0 to 274877906944"),
    ("seal_chunks", (NONCE, MAX_CHUNKS - 1, bytes(C), True), ValueError, "index must be from 0 to 274877906942"),
    ("seal_chunks", (NONCE, 0, bytes(C + 1)), ValueError, "plaintext must be a multiple of 16384 bytes unless"),
    ("seal_chunks", (NONCE, 0, 5), TypeError, "plaintext must be bytes-like, not int"),
    ("seal_chunks", (NONCE, 0, [b"", 5]), TypeError, "plaintext piece must be bytes-like, not int"),
    ("seal_chunks", (NONCE, 0, memoryview(bytes(8))[::2]), ValueError, "plaintext must be contiguous"),
    ("open_chunks", (NONCE, 0, bytes(S - 1)), ValueError, "sealed must be a multiple of 16400 bytes unless"),
    ("open_chunks", (NONCE, 0, bytes(15), True), ValueError, "must end with a chunk of 16 to 16399 bytes, not 15"),
    ("open_chunks", (NONCE, 0, bytes(S), True), ValueError, "must end with a chunk of 16 to 16399 bytes, not 0"),
    ("verify_chunks", (NONCE, 0, b"", True), ValueError, "must end with a chunk of 16 to 16399 bytes, not 0"),
    ("verify_chunks", (NONCE, 0, ["text"]), TypeError, "sealed piece must be bytes-like, not str"),
]


@pytest.mark.parametrize(("method", "arguments", "error", "message"), WRONG)
def test_wrong_arguments(method: str, arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        getattr(aead(), method)(*arguments)


def test_wrong_arguments_of_streams() -> None:
    with pytest.raises(ValueError, match="key must be 32 bytes, not 31"):
        engine.ChunkedSealer(bytes(31))
    with pytest.raises(TypeError, match="context must be bytes-like, not str"):
        engine.ChunkedSealer(KEY, "context")  # type: ignore[arg-type]
    sealer = engine.ChunkedSealer(KEY)
    with pytest.raises(TypeError, match="data must be bytes-like, not str"):
        sealer.update("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="data piece must be bytes-like, not int"):
        sealer.finish([b"te", 5])  # type: ignore[list-item]
    opener = engine.ChunkedOpener(KEY, sealer.header)
    with pytest.raises(TypeError, match="data must be bytes-like, not NoneType"):
        opener.update(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="index must be from 0 to"):
        opener.open_chunk(MAX_CHUNKS, bytes(16), True)
    assert opener.finish(sealer.finish(b"text")) == b"text"  # nobody is the worse for it


def test_the_longest_stream() -> None:
    """What precedes the last chunk is skipped: there are 4 PiB of it."""
    pytest.importorskip("cryptography")
    sealer = engine.ChunkedSealer(KEY)
    sealer._index = MAX_CHUNKS - 2  # type: ignore[attr-defined]
    assert len(sealer.update(bytes(C + 5))) == S
    for call in (sealer.update, sealer.finish):
        with pytest.raises(ValueError, match="at most 4503599627370495 bytes"):
            call(bytes(C - 5))
    last = sealer.finish(bytes(C - 6))
    cipher, base, _ = chunked_oracle.derived(KEY, sealer.header[:24], b"", chunked_oracle.CHACHA20_POLY1305)
    assert last == cipher.encrypt((base ^ (MAX_CHUNKS - 1)).to_bytes(12, "big"), bytes(C - 1), None)
    opener = engine.ChunkedOpener(KEY, sealer.header)
    assert opener.open_chunk(MAX_CHUNKS - 1, last, last=True) == bytes(C - 1)
    for final, body in ((True, last), (False, bytes(S))):
        reader = engine.ChunkedOpener(KEY, sealer.header)
        reader._index = MAX_CHUNKS - final  # type: ignore[attr-defined]
        if final:
            assert reader.finish(body) == bytes(C - 1)
        else:
            with pytest.raises(engine.InvalidTag):
                reader.update(body)
    reader = engine.ChunkedOpener(KEY, sealer.header)
    reader._index = MAX_CHUNKS - 1  # type: ignore[attr-defined]
    with pytest.raises(engine.InvalidTag, match="longer than any"):
        reader.update(bytes(S))


@pytest.mark.parametrize("size", [C, 100, 3 * C, C + 1])
def test_threads_share_a_sealer_and_an_opener(size: int) -> None:
    """One byte value throughout, so that the chunks do not depend on who was first; none is made twice or left out."""
    turns = 1 if slow() else 25
    size = min(size, C) if slow() else size
    piece = b"\x5c" * size
    sealer = engine.ChunkedSealer(KEY)
    made: list[bytes] = []

    def work(_: int) -> None:
        for _ in range(turns):
            made.append(sealer.update(piece))

    together(work)
    made.append(sealer.finish())
    total, chunks = size * turns * THREADS, set()
    for part in made:
        chunks |= {part[start : start + S] for start in range(0, len(part), S)}
    opener = engine.ChunkedOpener(KEY, sealer.header)
    whole, rest = divmod(total, C)
    assert len(chunks) == whole + 1
    expected = opener._aead.seal_chunks(opener._base_nonce, 0, b"\x5c" * total, True)  # type: ignore[attr-defined]
    assert chunks == {expected[start : start + S] for start in range(0, len(expected), S)}
    opened: list[bytes] = []
    places = iter(range(0, whole * S, S))
    lock = threading.Lock()

    def read(_: int) -> None:
        while True:
            with lock:  # in order: a stream has one
                place = next(places, None)
                if place is None:
                    return
                opened.append(opener.update(expected[place : place + S]))

    together(read)
    assert sum(map(len, opened)) + len(opener.finish(expected[whole * S :])) == total
    assert rest == total % C


def test_only_one_finishes() -> None:
    sealer = engine.ChunkedSealer(KEY)
    sealer.update(MESSAGE[:100])
    finished: list[bytes] = []

    def work(_: int) -> None:
        try:
            finished.append(sealer.finish())
        except ValueError:
            finished.append(b"")

    together(work)
    assert sorted(map(len, finished)) == [0] * (THREADS - 1) + [116]


def test_the_gil_is_released_for_many_chunks() -> None:
    if slow():
        pytest.skip("Python code holds the GIL between chunks")
    data, ours = bytes(64 * 1024 * 1024), aead()
    sealed = ours.seal_chunks(NONCE, 0, data)
    ticks, stop = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        for method, argument in ((ours.seal_chunks, data), (ours.open_chunks, sealed), (ours.verify_chunks, sealed)):
            for _ in range(50):  # a busy machine may not let the other thread run meanwhile
                before = ticks
                method(NONCE, 0, argument)
                during = ticks - before
                if during > 1000:
                    break
                time.sleep(0.01)
            assert during > 1000
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_cannot_go_on_with_a_stream() -> None:
    sealer = engine.ChunkedSealer(KEY)
    sealer.update(b"beginning")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in (sealer.update, sealer.finish):
                with pytest.raises(RuntimeError, match="in another process"):
                    call(b"other end")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert engine.ChunkedOpener(KEY, sealer.header).finish(sealer.finish(b" and end")) == b"beginning and end"


def test_copies_are_refused() -> None:
    sealer = engine.ChunkedSealer(KEY)
    opener = engine.ChunkedOpener(KEY, sealer.header)
    for thing in (sealer, opener):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="must not be copied"):
                attempt(thing)


def test_keys_are_in_no_repr() -> None:
    sealer = engine.ChunkedSealer(KEY)
    assert KEY.hex() not in repr(sealer) + repr(engine.ChunkedOpener(KEY, sealer.header))
    assert not hasattr(sealer, "__dict__")
