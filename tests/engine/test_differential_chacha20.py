"""ChaCha20 and HChaCha20 against the reference, and the end of the 32-bit block counter."""

from __future__ import annotations

import oracle
import pytest

import engine
from engine.backends import reference

NONCE = oracle.nonce("chacha20-poly1305")
BLOCKS = 70
pytestmark = pytest.mark.usefixtures("compared")


def test_every_length() -> None:
    stream = oracle.keystream(0, 40)
    expected = oracle.xor(oracle.MESSAGE[: len(stream)], stream)
    for size in range(2101):
        source = memoryview(bytes(size % 32) + oracle.MESSAGE[:size])[size % 32 :]
        assert engine.chacha20_xor(oracle.KEY, NONCE, source) == expected[:size], size


@pytest.mark.parametrize("counter", [1, 255, 2**16 - 3, 2**31 - 9, 2**32 - BLOCKS])
def test_counter(counter: int) -> None:
    stream = oracle.keystream(counter, BLOCKS)
    for skipped in range(BLOCKS):
        for size in (1, 63, 64, 65, 64 * BLOCKS):
            expected = stream[64 * skipped : 64 * skipped + size]
            got = engine.chacha20_xor(oracle.KEY, NONCE, bytes(len(expected)), counter + skipped)
            assert got == expected, (skipped, size)


def test_the_counter_does_not_wrap() -> None:
    for blocks in (1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 64, BLOCKS):
        counter = 2**32 - blocks
        engine.chacha20_xor(oracle.KEY, NONCE, bytes(64 * blocks), counter)
        with pytest.raises(ValueError, match=rf"data must be at most {64 * blocks} bytes.*, not {64 * blocks + 1}"):
            engine.chacha20_xor(oracle.KEY, NONCE, bytes(64 * blocks + 1), counter)


@pytest.mark.parametrize("counter", [-1, 2**32, 2**64, -(2**70)])
def test_counter_out_of_range(counter: int) -> None:
    with pytest.raises(ValueError, match=r"counter must be from 0 to 4294967295"):
        engine.chacha20_xor(oracle.KEY, NONCE, b"", counter)


def test_long() -> None:
    expected = oracle.xor(oracle.MESSAGE, oracle.keystream(7, oracle.LONG // 64))
    for size in (oracle.LONG, 65535, 65536, 65537, *oracle.random_sizes("chacha20", oracle.LONG, 20)):
        assert engine.chacha20_xor(oracle.KEY, NONCE, oracle.MESSAGE[:size], 7) == expected[:size], size


def test_hchacha20() -> None:
    for index in range(50):
        key, nonce = oracle.data(f"key {index}", 32), oracle.data(f"nonce {index}", 16)
        assert engine.hchacha20(key, nonce) == reference.hchacha20(key, nonce)
    for key, nonce in ((bytes(32), bytes(16)), (b"\xff" * 32, b"\xff" * 16)):
        assert engine.hchacha20(key, nonce) == reference.hchacha20(key, nonce)
