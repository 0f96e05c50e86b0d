"""Poly1305 where carries go wrong: chosen accumulators, full limbs in both radixes, and extreme r."""

from __future__ import annotations

import functools
import itertools
import random
import struct

import pytest
from effort import SMALL
from oracle import CLAMP, PRIME, Tags

import engine

S_ZERO, S_ONES = 0, 2**128 - 1


def limbs_full(radix: int) -> list[int]:
    """Numbers below 2^130 with one limb of all ones, with all but one, and with ones from one limb upwards."""
    positions = [(start, min(radix, 130 - start)) for start in range(0, 130, radix)]
    single = [(2**width - 1) << start for start, width in positions]
    every = 2**130 - 1
    return [*single, *(every ^ one for one in single), *(every >> start << start for start, _ in positions)]


#: Where the last reduction and the last carry have something to decide.
ACCUMULATORS = sorted(
    {
        value % PRIME
        for middle in (0, PRIME, 2**130, 2**129, 2**128, 2**128 - 5, 2**104, 2**88, 2**64, 2**52, 2**44, 2**32, 2**26)
        for value in range(middle - 6, middle + 7)
        if value >= 0
    }
    | {value % PRIME for radix in (26, 44) for value in limbs_full(radix)}
)
#: Extremes that clamping allows, with each limb of either radix full where it can be, and small numbers.
RS = sorted(
    {0, 1, 2, 3, 4, 5, 8, 2**26, 2**44, 2**88, 1 << 104, CLAMP, CLAMP ^ 1, CLAMP >> 4 & CLAMP, 1 | 1 << 100}
    | {value & CLAMP for radix in (26, 44) for value in limbs_full(radix)}
)
#: Zero lands nowhere but on zero.
LANDING_RS = RS[1 :: 3 if SMALL else 1]
#: In blocks; on both sides of a turn of each kernel.
LENGTHS = (1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 130, 191, 257)
BLOCK_BIT = 2**128


def key_of(r: int, s: int) -> bytes:
    return r.to_bytes(16, "little") + s.to_bytes(16, "little")


def state_of(key: bytes, accumulator: int, pending: bytes = b"") -> bytes:
    return b"\1" + key + accumulator.to_bytes(17, "little") + bytes([len(pending)]) + pending.ljust(15, b"\0")


def tag_of(accumulator: int, s: int) -> bytes:
    return ((accumulator + s) % 2**128).to_bytes(16, "little")


def landing(r: int, target: int, blocks: int, draw: random.Random) -> bytes | None:
    """A message of so many blocks after which the accumulator is ``target``; none if this r can't get there."""
    inverse = pow(r, -1, PRIME)
    for _ in range(64):
        before = [draw.choice((BLOCK_BIT - 1, 0, draw.getrandbits(128))) for _ in range(blocks - 1)]
        if blocks > 1:
            before[-1] = draw.getrandbits(128)
        total = 0
        for block in before:
            total = (total + block + BLOCK_BIT) * r % PRIME
        last = (target * inverse - total - BLOCK_BIT) % PRIME
        if last < BLOCK_BIT:
            return b"".join(block.to_bytes(16, "little") for block in (*before, last))
    return None


LANDINGS: list[tuple[int, int, bytes]] = []


def landings() -> list[tuple[int, int, bytes]]:
    """(r, target, message), found once; several lengths for each pair."""
    if not LANDINGS:
        draw = random.Random("sealane landings")
        for r in LANDING_RS:
            for target in ACCUMULATORS:
                for blocks in draw.sample(LENGTHS, 2):
                    message = landing(r, target, blocks, draw)
                    if message is not None:
                        LANDINGS.append((r, target, message))
    return LANDINGS


def test_the_landings_are_many_and_right() -> None:
    found = landings()
    assert len(found) > (1000 if SMALL else 3000)
    assert {target for _, target, _ in found} >= set(ACCUMULATORS)
    assert {r for r, _, _ in found} == set(LANDING_RS)
    for r, target, message in random.Random(1).sample(found, 200):
        assert Tags(key_of(r, S_ZERO), message).accumulators[-1] == target


@pytest.mark.usefixtures("implementation")
def test_chosen_accumulators_at_the_end() -> None:
    # The Python backends have one way of adding, and no limbs.
    for r, target, message in landings()[:: 1 if engine.info().backend == "native" else 5]:
        for s in (S_ZERO, S_ONES):
            mac = engine.Poly1305(key_of(r, s))
            mac.update(message)
            assert mac.digest() == tag_of(target, s), (hex(r), hex(target), len(message) // 16)


@pytest.mark.usefixtures("implementation")
def test_chosen_accumulators_are_exported_reduced() -> None:
    for r, target, message in landings()[::3]:
        mac = engine.Poly1305(key_of(r, S_ZERO))
        mac.update(message)
        assert mac.export_state() == state_of(key_of(r, S_ZERO), target), (hex(r), hex(target), len(message) // 16)


def _after(key: bytes, accumulator: int, message: bytes) -> int:
    return Tags(key, b"").absorbed(accumulator, message)


CASES_FROM_STATES: list[tuple[bytes, int, bytes, bytes]] = []


def cases_from_states() -> list[tuple[bytes, int, bytes, bytes]]:
    """(key, accumulator to start from, message, tag): full limbs in each of h, r and the message at once."""
    if not CASES_FROM_STATES:
        draw = random.Random("sealane states")
        ones, zeros = b"\xff" * 16, bytes(16)
        for r in RS:
            key = key_of(r, S_ONES)
            for accumulator in ACCUMULATORS[:: 1 if r == CLAMP else 7]:
                for block in (ones, zeros, struct.pack("<QQ", 2**44 - 1, 2**64 - 1)):
                    message = block * draw.choice(LENGTHS)
                    tag = tag_of(_after(key, accumulator, message), S_ONES)
                    CASES_FROM_STATES.append((key, accumulator, message, tag))
    return CASES_FROM_STATES


@pytest.mark.usefixtures("implementation")
def test_full_limbs_everywhere() -> None:
    cases = cases_from_states()
    assert len(cases) > 1000
    for key, accumulator, message, tag in cases:
        mac = engine.Poly1305.from_state(state_of(key, accumulator))
        mac.update(message)
        assert mac.digest() == tag, (key[:16].hex(), hex(accumulator), message[:16].hex(), len(message))


#: (r, k) where all limbs of r^k but the lowest are full in radix 2^26, and so are the upper two in radix 2^44: found by
#: taking square roots of such numbers until one was a clamped r. No random r comes near.
FULL_POWERS = (
    (0x0EFDD6C8079B39F80A1FC0980178E953, 2),
    (0x09DA2D04018C8A18071A246C0A3EBC92, 2),
    (0x08B4C66001F71EDC031069400FD865DB, 4),
    (0x02C38FE00B6B33580605E11C081FC85A, 4),
    (0x0D3591A001394AA40B1EA5740E574B59, 8),
    (0x03048C740476514803EBC1E40ECCD4E2, 8),
)


def test_the_full_powers_are_full() -> None:
    for r, power in FULL_POWERS:
        assert r & CLAMP == r
        assert pow(r, power, PRIME) >> 26 == 2**104 - 1


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize(("r", "power"), FULL_POWERS)
def test_full_powers(r: int, power: int) -> None:
    """Full limbs in a power that a vector kernel multiplies by, against full limbs in the message and accumulator."""
    for (block, blocks, accumulator), tag in full_power_cases(r):
        mac = engine.Poly1305.from_state(state_of(key_of(r, S_ONES), accumulator))
        mac.update(block * blocks)
        assert mac.digest() == tag, (block.hex(), blocks, hex(accumulator))


@functools.cache
def full_power_cases(r: int) -> list[tuple[tuple[bytes, int, int], bytes]]:
    key = key_of(r, S_ONES)
    blocks = (b"\xff" * 16, bytes(16), struct.pack("<QQ", 2**44 - 1, 2**64 - 1), b"\xff" * 8 + bytes(8))
    starts = (0, PRIME - 1, 2**128 - 1, 2**130 - 2**26)
    cases = itertools.product(blocks, LENGTHS, starts)
    return [(case, tag_of(_after(key, case[2], case[0] * case[1]), S_ONES)) for case in cases]


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("r", RS, ids=hex)
def test_long_runs_of_ones(r: int) -> None:
    """Sums that grow as far as they can between two carries, over many turns."""
    key = key_of(r, S_ONES)
    ones = b"\xff" * 8192
    tags = _ones_tags(key)
    for size in (16, 1024, 2048, 4095, 4096, 4097, 8176, 8192):
        mac = engine.Poly1305(key)
        mac.update(ones[:size])
        assert mac.digest() == tags.of(size), size


_ONES: dict[bytes, Tags] = {}


def _ones_tags(key: bytes) -> Tags:
    if key not in _ONES:
        _ONES[key] = Tags(key, b"\xff" * 8192)
    return _ONES[key]


@pytest.mark.usefixtures("implementation")
def test_random_keys() -> None:
    """Many r, because powers of r are where a rare carry hides."""
    for index, (key, message, tag) in enumerate(random_cases()):
        mac = engine.Poly1305(key)
        mac.update(message)
        assert mac.digest() == tag, index


RANDOM_CASES: list[tuple[bytes, bytes, bytes]] = []


def random_cases() -> list[tuple[bytes, bytes, bytes]]:
    if not RANDOM_CASES:
        draw = random.Random("sealane keys")
        for _ in range(1500):
            key = draw.randbytes(32)
            message = draw.choice((b"\xff" * 2048, draw.randbytes(2048)))[: draw.choice((256, 777, 1024, 1040, 2048))]
            RANDOM_CASES.append((key, message, Tags(key, message).of(len(message))))
    return RANDOM_CASES
