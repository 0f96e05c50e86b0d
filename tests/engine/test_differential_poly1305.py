"""Poly1305 against the reference: every length and alignment, pieces of every kind, and states that move."""

from __future__ import annotations

import itertools

import oracle
import pytest
from implementations import IMPLEMENTATIONS

import engine

HIGHEST = 2100


def tag(data: bytes | memoryview, key: bytes = oracle.KEY) -> bytes:
    mac = engine.Poly1305(key)
    mac.update(data)
    return mac.digest()


@pytest.mark.usefixtures("compared")
def test_every_length() -> None:
    tags = oracle.poly1305()
    for size in range(HIGHEST + 1):
        assert tag(oracle.MESSAGE[:size]) == tags.of(size), size


@pytest.mark.usefixtures("compared")
def test_every_alignment() -> None:
    tags = oracle.poly1305()
    sources = [memoryview(bytes(offset) + oracle.MESSAGE[: HIGHEST + 1])[offset:] for offset in range(32)]
    for size in range(0, HIGHEST + 1, 1 if engine.info().backend == "native" else 61):
        expected = tags.of(size)
        for source in sources:
            assert tag(source[:size]) == expected, size


@pytest.mark.usefixtures("compared")
@pytest.mark.parametrize(
    "size",
    [*(1 << bits for bits in range(12, 17)), 65535, 65537, oracle.LONG, *oracle.random_sizes("p", oracle.LONG, 9)],
)
def test_random_pieces(size: int) -> None:
    expected = oracle.poly1305().of(size)
    assert tag(oracle.MESSAGE[:size]) == expected
    for attempt in range(8):
        mac = engine.Poly1305(oracle.KEY)
        start = 0
        for piece in oracle.random_splits(f"pieces {attempt}", size):
            mac.update(memoryview(oracle.MESSAGE)[start : start + piece])
            start += piece
        mac.verify(expected)


@pytest.mark.usefixtures("compared")
@pytest.mark.parametrize(
    "piece", [1, 15, 16, 17, 31, 48, 63, 64, 65, 127, 128, 256, 1000, 1024, 2047, 2048, 2049, 4096]
)
def test_equal_pieces(piece: int) -> None:
    """One stream of writes of one size, with the tag so far checked on a copy after each of the first ones."""
    mac = engine.Poly1305(oracle.KEY)
    tags = oracle.poly1305()
    view = memoryview(oracle.MESSAGE)
    size = 20000 if piece < 64 else oracle.LONG
    for count, start in enumerate(range(0, size, piece)):
        mac.update(view[start : min(size, start + piece)])
        if count < 200:
            so_far = engine.Poly1305.from_state(mac.export_state())
            assert so_far.digest() == tags.of(min(size, start + piece)), count
    assert mac.digest() == tags.of(size)


@pytest.mark.usefixtures("compared")
def test_every_pair_of_pieces() -> None:
    """Each length of the first piece against lengths around each edge of a kernel's buffer and turn."""
    tags = oracle.poly1305()
    view = memoryview(oracle.MESSAGE)
    seconds = sorted(
        {edge + more for edge in (0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096) for more in (0, 1, 15, 17)}
    )
    native = engine.info().backend == "native"
    for first in range(0, 300, 1 if native else 23):
        for second in seconds:
            mac = engine.Poly1305(oracle.KEY)
            mac.update(view[:first])
            mac.update(view[first : first + second])
            assert mac.digest() == tags.of(first + second), (first, second)


@pytest.mark.parametrize(("giver", "taker"), list(itertools.product(IMPLEMENTATIONS, repeat=2)))
def test_state_moves_between_implementations(giver: str, taker: str) -> None:
    """After every pending length, before and after the first blocks, and after long data."""
    before = engine.info().kernel
    tags = oracle.poly1305()
    view = memoryview(oracle.MESSAGE)
    try:
        for size in (*range(66), *range(1020, 1060), *range(4096, 4112)):
            engine.use(giver)
            mac = engine.Poly1305(oracle.KEY)
            mac.update(view[:size])
            state = mac.export_state()
            assert state == _state_by_reference(size)
            engine.use(taker)
            moved = engine.Poly1305.from_state(state)
            assert moved.export_state() == state
            end = size + 1300
            moved.update(view[size:end])
            assert moved.digest() == tags.of(end), size
            mac.update(view[size:end])
            assert mac.digest() == tags.of(end), size
    finally:
        engine.use(before)


def _state_by_reference(size: int) -> bytes:
    whole, pending = size // 16, oracle.MESSAGE[size // 16 * 16 : size]
    accumulator = oracle.poly1305().accumulators[whole].to_bytes(17, "little")
    return b"\1" + oracle.KEY + accumulator + bytes([len(pending)]) + pending.ljust(15, b"\0")


@pytest.mark.usefixtures("implementation")
def test_state_is_exported_between_all_pieces() -> None:
    size = 9000
    mac = engine.Poly1305(oracle.KEY)
    start = 0
    for piece in oracle.random_splits("export", size):
        mac = engine.Poly1305.from_state(bytearray(mac.export_state()))
        mac.update(oracle.MESSAGE[start : start + piece])
        start += piece
    assert mac.digest() == oracle.poly1305().of(size)


@pytest.mark.usefixtures("implementation")
def test_mac_key_starts_equal_macs_under_equal_nonces_only() -> None:
    key = engine.MacKey(oracle.KEY)
    states = [key.start(oracle.data(f"nonce {index}", 24)).export_state() for index in (0, 1, 0)]
    assert states[0] == states[2] != states[1]
