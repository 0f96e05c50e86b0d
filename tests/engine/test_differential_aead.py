"""Sealing and opening against the reference: every length, alignment and way of giving the buffers."""

from __future__ import annotations

import functools

import oracle
import pytest
from effort import SMALL

import engine
from engine.backends import reference

HIGHEST = 2100
ALIGNMENTS = 32
#: On both sides of a block, of each kernel's passes, and of the powers of r.
EDGES = sorted({0, 1, 15, 16, 17, *(edge + more for edge in (64, 128, 256, 512, 1024, 2048) for more in (-1, 0, 1))})
GUARD = b"\xa5"
FAR = [
    *(slice_ + more for slice_ in (4096, 8192, 16384, 32768, 65536) for more in (-1, 0, 1)),
    oracle.LONG,
    *oracle.random_sizes("far", oracle.LONG, 30),
]
pytestmark = pytest.mark.usefixtures("compared")


def test_every_length(algorithm: str) -> None:
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    aad = oracle.AAD[:13]
    for size, expected in enumerate(oracle.sealed_at_every_size(algorithm, HIGHEST, aad)):
        assert aead.seal(nonce, oracle.MESSAGE[:size], aad) == expected, size
        assert aead.open(nonce, expected, aad) == oracle.MESSAGE[:size], size


@functools.cache
def sealed_with_aad(algorithm: str, size: int) -> bytes:
    aead = reference.ReferenceAead(oracle.KEY, algorithm)
    return aead.seal(oracle.nonce(algorithm), b"text", oracle.AAD[:size])


def test_every_length_of_aad(algorithm: str) -> None:
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    for size in range(HIGHEST + 1) if algorithm == "chacha20-poly1305" and not SMALL else EDGES:
        expected = sealed_with_aad(algorithm, size)
        assert aead.seal(nonce, b"text", oracle.AAD[:size]) == expected, size
        assert aead.open(nonce, expected, oracle.AAD[:size]) == b"text", size


def test_every_alignment_of_every_length(algorithm: str) -> None:
    """Input at each offset; output and AAD at offsets that change with it and with the length."""
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    aad = oracle.AAD[:21]
    expected = oracle.sealed_at_every_size(algorithm, HIGHEST, aad)
    sources = [memoryview(bytes(offset) + oracle.MESSAGE)[offset:] for offset in range(ALIGNMENTS)]
    aads = [memoryview(bytearray(bytes(offset) + aad))[offset:] for offset in range(ALIGNMENTS)]
    out = bytearray(ALIGNMENTS + HIGHEST + 16 + 1)
    view = memoryview(out)
    # Python backends copy, so that alignment is not theirs to get wrong.
    step = 1 if engine.info().backend == "native" else 7
    for size in range(0, HIGHEST + 1, step):
        for offset in range(ALIGNMENTS):
            start = (offset * 5 + size) % ALIGNMENTS
            end = start + size + 16
            out[end : end + 1] = GUARD
            written = aead.seal_into(nonce, sources[offset][:size], view[start:end], aads[(start + 9) % ALIGNMENTS])
            assert written == size + 16
            assert view[start:end] == expected[size], (size, offset, start)
            assert out[end : end + 1] == GUARD, (size, offset, start)


def test_every_pair_of_alignments(algorithm: str) -> None:
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    space = ALIGNMENTS + HIGHEST + 16 + 1
    out = memoryview(bytearray(space))
    source = memoryview(bytearray(space))
    pairs = ALIGNMENTS if engine.info().backend == "native" else 4
    for size in EDGES:
        expected = oracle.sealed(algorithm, size)
        for offset in range(pairs):
            source[offset : offset + size + 16] = expected
            for start in range(ALIGNMENTS):
                out[start + size : start + size + 1] = GUARD
                assert aead.open_into(nonce, source[offset : offset + size + 16], out[start : start + size]) == size
                assert out[start : start + size] == oracle.MESSAGE[:size], (size, offset, start)
                assert out[start + size : start + size + 1] == GUARD, (size, offset, start)


def test_in_place_at_every_length(algorithm: str) -> None:
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    space = bytearray(ALIGNMENTS + HIGHEST + 16)
    view = memoryview(space)
    for size, expected in enumerate(oracle.sealed_at_every_size(algorithm, HIGHEST)):
        start = size * 3 % ALIGNMENTS
        text, whole = view[start : start + size], view[start : start + size + 16]
        text[:] = oracle.MESSAGE[:size]
        assert aead.seal_into(nonce, text, whole) == size + 16
        assert whole == expected, size
        assert aead.open_into(nonce, whole, text) == size
        assert text == oracle.MESSAGE[:size], size


@pytest.mark.parametrize("size", sorted(set(FAR)))
def test_long(algorithm: str, size: int) -> None:
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    aad = oracle.AAD[:29]
    expected = oracle.sealed(algorithm, size, aad)
    assert aead.seal(nonce, oracle.MESSAGE[:size], aad) == expected
    assert aead.open(nonce, expected, aad) == oracle.MESSAGE[:size]
    space = memoryview(bytearray(size + 16 + 3))[3:]
    space[:size] = oracle.MESSAGE[:size]
    assert aead.seal_into(nonce, space[:size], space, aad) == size + 16
    assert space == expected
    assert aead.open_into(nonce, space, space, aad) == size
    assert space[:size] == oracle.MESSAGE[:size]


def test_any_bit_flipped_is_found(algorithm: str) -> None:
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    for size in (0, 1, 16, 33, 130):
        expected = oracle.sealed(algorithm, size)
        for bit in range(8 * len(expected)):
            forged = bytearray(expected)
            forged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(engine.InvalidTag):
                aead.open(nonce, forged)


def test_a_flipped_byte_anywhere_in_a_long_message_is_found(algorithm: str) -> None:
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    forged = bytearray(oracle.sealed(algorithm, oracle.LONG))
    step = 997 if engine.info().backend == "native" else 9973
    for index in range(0, len(forged), step):
        forged[index] ^= 0x80
        with pytest.raises(engine.InvalidTag):
            aead.open(nonce, forged)
        forged[index] ^= 0x80
    assert aead.open(nonce, forged) == oracle.MESSAGE
