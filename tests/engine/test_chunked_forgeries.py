"""Streams that were cut, reordered, continued or changed are refused, and nothing unverified comes out before that."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import oracle
import pytest

import engine
from engine import chunked

pytestmark = pytest.mark.usefixtures("implementation")
KEY, CONTEXT = oracle.KEY, b"context"
C, S, H = chunked.CHUNK_SIZE, chunked.SEALED_CHUNK_SIZE, chunked.HEADER_SIZE
MESSAGE = oracle.data("forged stream", 3 * C + 50)


@pytest.fixture
def text() -> bytes:
    """Three whole chunks and a short one; where that takes too long, one and one."""
    return MESSAGE[2 * C :] if engine.info().backend == "reference" else MESSAGE


@pytest.fixture
def stream(text: bytes) -> bytes:
    sealer = engine.ChunkedSealer(KEY, CONTEXT)
    return sealer.header + sealer.finish(text)


def refused(forged: bytes, text: bytes, context: bytes = CONTEXT, key: bytes = KEY) -> None:
    """Refused at once, in one go and in pieces, by both readers; what came out in pieces is how the text begins."""
    for kind in (engine.ChunkedOpener, engine.ChunkedVerifier):
        with pytest.raises(engine.InvalidTag):
            kind(key, forged[:H], context).finish(forged[H:])
    if engine.info().backend == "reference":
        return
    opener, released = engine.ChunkedOpener(key, forged[:H], context), b""
    verifier = engine.ChunkedVerifier(key, forged[:H], context)
    with pytest.raises(engine.InvalidTag):  # noqa: PT012 - somewhere in the stream
        for start in range(H, len(forged), 10_000):
            released += opener.update(forged[start : start + 10_000])
        released += opener.finish()
    assert text.startswith(released)
    assert len(released) % C == 0
    with pytest.raises(engine.InvalidTag):  # noqa: PT012
        for start in range(H, len(forged), 10_000):
            verifier.update(forged[start : start + 10_000])
        verifier.finish()
    for call in (opener.update, opener.finish, verifier.update, verifier.finish):
        with pytest.raises(engine.InvalidTag):
            call(b"")


def borders(stream: bytes) -> list[int]:
    return [*range(H, len(stream), S), len(stream)]


def test_truncations(stream: bytes, text: bytes) -> None:
    for border in borders(stream):
        for place in range(border - 18, border + 18):
            if H <= place < len(stream):
                refused(stream[:place], text)


def test_a_cut_header_is_no_header(stream: bytes) -> None:
    for size in (0, 23, 24, 55, 57):
        with pytest.raises(ValueError, match="header must be 56 bytes"):
            engine.ChunkedOpener(KEY, stream[:size] if size < 57 else stream[:57], CONTEXT)


def test_chunks_left_out_moved_or_repeated(stream: bytes, text: bytes) -> None:
    chunks = [stream[start : start + S] for start in range(H, len(stream), S)]
    places = range(len(chunks))
    arrangements: Iterator[tuple[int, ...]] = itertools.chain(
        itertools.permutations(places),
        itertools.chain.from_iterable(itertools.combinations(places, count) for count in places),
        ((*places, last) for last in places),
        ((first, *places) for first in places),
    )
    for arrangement in arrangements:
        if arrangement != tuple(places):
            refused(stream[:H] + b"".join(chunks[place] for place in arrangement), text)


def test_continuations(stream: bytes, text: bytes) -> None:
    own_last = engine.ChunkedSealer(KEY, CONTEXT)
    for more in (b"\0", bytes(15), bytes(16), bytes(S - 66), bytes(S), stream[-66:], own_last.finish(), stream[H:]):
        refused(stream + more, text)


def test_chunks_of_another_stream(stream: bytes, text: bytes) -> None:
    sealer = engine.ChunkedSealer(KEY, CONTEXT)
    other = sealer.header + sealer.finish(text)
    for start in range(H, len(stream), S):
        refused(stream[:start] + other[start : start + S] + stream[start + S :], text)
    refused(stream[:H] + other[H:], text)


def test_flipped_bits_at_every_border(stream: bytes, text: bytes) -> None:
    places = {place + offset for place in borders(stream) for offset in (-17, -16, -1, 0, 1, 16)}
    for place in sorted(places):
        if H <= place < len(stream):
            for bit in (0, 7):
                forged = bytearray(stream)
                forged[place] ^= 1 << bit
                refused(bytes(forged), text)


def test_flipped_bits_of_the_header(stream: bytes) -> None:
    for place in range(H):
        header = bytearray(stream[:H])
        header[place] ^= 0x10
        for kind in (engine.ChunkedOpener, engine.ChunkedVerifier):
            with pytest.raises(engine.InvalidTag):
                kind(KEY, header, CONTEXT)


def test_another_key_or_context(stream: bytes) -> None:
    for key, context in ((bytes(32), CONTEXT), (KEY, b""), (KEY, CONTEXT + b"\0"), (KEY, CONTEXT[:-1])):
        with pytest.raises(engine.InvalidTag):
            engine.ChunkedOpener(key, stream[:H], context)


def test_a_failed_call_gives_nothing_back(stream: bytes) -> None:
    """Neither does it go on behind the chunk that failed."""
    if len(stream) < H + 2 * S:
        pytest.skip("needs more chunks than the reference does in reasonable time")
    opener = engine.ChunkedOpener(KEY, stream[:H], CONTEXT)
    forged = bytearray(stream)
    forged[H + S] ^= 1
    with pytest.raises(engine.InvalidTag):
        opener.update(forged[H:])
    with pytest.raises(engine.InvalidTag):
        opener.update(stream[H + S :])
    with pytest.raises(engine.InvalidTag):
        opener.finish(stream[H + S :])
