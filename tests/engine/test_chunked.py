"""Sealed streams agree, both ways, with an implementation made from the specification; on every implementation."""

from __future__ import annotations

import hashlib
import itertools
import os
import random

import chunked_oracle
import oracle
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine
from engine import chunked

pytestmark = pytest.mark.usefixtures("implementation")
KEY = oracle.KEY
CONTEXT = b"\2\1\0\0\0\0\0\7 what the caller bound"
C = chunked.CHUNK_SIZE
SIZES = (0, 1, 16, C - 1, C, C + 1, 2 * C - 1, 2 * C, 3 * C, 5 * C + 777)
MESSAGE = oracle.data("stream", SIZES[-1])
SALT = oracle.data("salt", 24)
#: SHA-256 of whole streams of MESSAGE[:size] under SALT, by chunked_oracle: what machines without OpenSSL compare with.
KNOWN = {
    0: "0131402d020b5f7061ba259094832a33f763a1828ba0f79d2f474c2332607615",
    1: "408c64de7cb707c8e7a9c09496e4c8a64ea6050551ac0633781f831274bb2271",
    16: "9a0704fe0b9c961fa5220ef5c99688e53d72bfb81812890eea4bfb7055fa552e",
    16383: "d30fd0cac13103b8af0402251d7c10ec9e614315916f48d454c63e1508a0bcea",
    16384: "4269612cee0e78f75d81431ea0272a88a470a871163c3750a0b3a37597407087",
    16385: "6344322efe8bac59176ee10b4b0ee6f55a8ec8f135fbcd5f479c60f92bb2df58",
    32767: "dda3591aa211b8894425e95e5964f89020dae20939548c970b729b4ad6581f59",
    32768: "4df05fcbf7d8eca2559c7c13305ecd0a5142e049d1830d50e5eb4e4d0554b0b7",
    49152: "4f1fe999a0537cf4e488f2080248942ed89b869a5762e4cb21b14f0f6c23ae67",
    82697: "b00b7ef8998f7dacb4fb42b3bcad1b39bb49cc1689c74124e0eac21c4ade5d7e",
}


def sizes() -> tuple[int, ...]:
    return SIZES[:3] + SIZES[4:6] if engine.info().backend == "reference" else SIZES


def pieces(data: bytes, *cuts: int) -> list[bytes]:
    borders = [0, *sorted(cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(borders)]


def sealed_in_pieces(parts: list[bytes], last: bytes = b"") -> bytes:
    sealer = engine.ChunkedSealer(KEY, CONTEXT)
    return sealer.header + b"".join([sealer.update(part) for part in parts]) + sealer.finish(last)


def opened_in_pieces(stream: bytes, *cuts: int) -> bytes:
    opener = engine.ChunkedOpener(KEY, stream[: chunked.HEADER_SIZE], CONTEXT)
    verifier = engine.ChunkedVerifier(KEY, stream[: chunked.HEADER_SIZE], CONTEXT)
    plaintext = b""
    for part in pieces(stream[chunked.HEADER_SIZE :], *cuts):
        plaintext += opener.update(part)
        assert verifier.update(part) is None
    assert verifier.finish() is None
    return plaintext + opener.finish()


@pytest.mark.parametrize("size", SIZES)
def test_known_streams(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if size not in sizes():
        pytest.skip("the reference is too slow for this one")
    monkeypatch.setattr(os, "urandom", lambda count: SALT[:count])
    stream = sealed_in_pieces([], MESSAGE[:size])
    assert hashlib.sha256(stream).hexdigest() == KNOWN[size]
    assert opened_in_pieces(stream) == MESSAGE[:size]


def test_agrees_with_the_specification() -> None:
    pytest.importorskip("cryptography")
    for size in sizes():
        text = MESSAGE[:size]
        stream = sealed_in_pieces([text])
        assert stream == chunked_oracle.seal(KEY, CONTEXT, text, stream[:24])
        assert chunked_oracle.opened(KEY, CONTEXT, stream) == text
        assert opened_in_pieces(chunked_oracle.seal(KEY, CONTEXT, text, SALT)) == text
        assert hashlib.sha256(chunked_oracle.seal(KEY, CONTEXT, text, SALT)).hexdigest() == KNOWN[size]


def test_an_empty_context_is_the_default() -> None:
    sealer = engine.ChunkedSealer(KEY)
    assert engine.ChunkedOpener(KEY, sealer.header).finish(sealer.finish(b"text")) == b"text"


def test_every_stream_has_its_own_salt() -> None:
    assert len({engine.ChunkedSealer(KEY).header[:24] for _ in range(100)}) == 100


BORDERS = st.sampled_from([0, 1, C - 1, C, C + 1, C + 15, C + 16, C + 17, 2 * C, 2 * C + 32, 3 * C, 3 * C + 48])
CUT = st.one_of(BORDERS, st.integers(0, 4 * C))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=CUT, cuts=st.lists(CUT, max_size=6), as_list=st.booleans(), last=st.integers(0, C + 5))
def test_any_split_gives_one_stream(size: int, cuts: list[int], as_list: bool, last: int) -> None:
    pytest.importorskip("cryptography")
    if engine.info().backend == "reference":
        size, cuts = size % 300, [cut % 300 for cut in cuts]
    text = MESSAGE[:size]
    cut = [min(place, size) for place in cuts]
    kept = min(last, size)
    parts = pieces(text[: size - kept], *[min(place, size - kept) for place in cut])
    sealer = engine.ChunkedSealer(KEY, CONTEXT)
    stream = sealer.header
    if as_list:
        stream += sealer.update([bytearray(part) for part in parts])
    else:
        for part in parts:
            stream += sealer.update(memoryview(part))
            assert len(stream) == 56 + (len(stream) - 56) // (C + 16) * (C + 16)  # whole chunks, as soon as they are
    tail = text[size - kept :]
    stream += sealer.finish(pieces(tail, kept // 2) if as_list else tail)
    assert stream == chunked_oracle.seal(KEY, CONTEXT, text, stream[:24])
    body = len(stream) - 56
    assert opened_in_pieces(stream, *[min(place, body) for place in cuts]) == text
    opener = engine.ChunkedOpener(KEY, stream[:56], CONTEXT)
    assert opener.update(pieces(stream[56:], *[min(place, body) for place in cuts])) + opener.finish([]) == text


def test_output_comes_as_soon_as_a_chunk_is_whole() -> None:
    sealer = engine.ChunkedSealer(KEY, CONTEXT)
    assert sealer.update(MESSAGE[: C - 1]) == b""
    first = sealer.update(MESSAGE[C - 1 : C])
    assert len(first) == C + 16
    opener = engine.ChunkedOpener(KEY, sealer.header, CONTEXT)
    assert opener.update(first[:-1]) == b""
    assert opener.update(first[-1:]) == MESSAGE[:C]
    assert opener.finish(sealer.finish()) == b""


def test_random_access() -> None:
    text = MESSAGE[: 2 * C + 100] if engine.info().backend == "reference" else MESSAGE
    stream = sealed_in_pieces([text])
    opener = engine.ChunkedOpener(KEY, stream[:56], CONTEXT)
    count = chunked.chunk_count(len(text))
    places = list(range(count))
    random.Random(5).shuffle(places)
    for index in places:
        start = chunked.chunk_offset(index)
        chunk, last = stream[start : start + chunked.SEALED_CHUNK_SIZE], index == count - 1
        assert opener.open_chunk(index, chunk, last) == text[index * C : (index + 1) * C]
        with pytest.raises(engine.InvalidTag):
            opener.open_chunk(index, chunk, not last)
        with pytest.raises(engine.InvalidTag):
            opener.open_chunk(index + 1, chunk, last)
        with pytest.raises(engine.InvalidTag):
            opener.open_chunk(index, chunk[:-1], last)
    assert opener.update(stream[56:]) + opener.finish() == text
    assert opener.open_chunk(0, stream[56 : 56 + C + 16]) == text[:C]


def test_a_finished_stream_stays_finished() -> None:
    sealer = engine.ChunkedSealer(KEY, CONTEXT)
    body = sealer.finish(b"text")
    for call in (sealer.update, sealer.finish):
        with pytest.raises(ValueError, match="finished"):
            call(b"")
    for kind in (engine.ChunkedOpener, engine.ChunkedVerifier):
        reader = kind(KEY, sealer.header, CONTEXT)
        reader.finish(body)
        for call in (reader.update, reader.finish):
            with pytest.raises(ValueError, match="finished"):
                call(b"")


@given(size=st.one_of(st.integers(0, 2**52 - 1), st.sampled_from([0, C - 1, C, 2**52 - C, 2**52 - 1])))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sizes(size: int) -> None:
    sealed = chunked.sealed_size(size)
    assert sealed == 24 + 32 + size + 16 * (size // 16384 + 1)
    assert chunked.plaintext_size(sealed) == size
    assert chunked.chunk_count(size) == size // 16384 + 1
    if size % 16384 == 16383:
        for impossible in range(sealed + 1, sealed + 17):  # a last chunk cut to nothing, or to less than a tag
            with pytest.raises(ValueError, match="sealed_size must be"):
                chunked.plaintext_size(impossible)


def test_sizes_that_cannot_be() -> None:
    for size in (0, 55, 56, 71, 56 + C + 16, 56 + C + 31, chunked.sealed_size(2**52 - 1) + 1):
        with pytest.raises(ValueError, match="sealed_size must be"):
            chunked.plaintext_size(size)
    for call, bad in ((chunked.sealed_size, -1), (chunked.sealed_size, 2**52), (chunked.chunk_offset, 2**38)):
        with pytest.raises(ValueError, match="must be from 0 to"):
            call(bad)
    assert chunked.chunk_offset(3) == 56 + 3 * 16400
