"""How the openssl backend finds a Poly1305 accumulator from two tags."""

from __future__ import annotations

import random

import pytest
from oracle import CLAMP, PRIME, Tags
from test_poly1305_carries import RS, key_of, state_of

openssl = pytest.importorskip("engine.backends.openssl")


def agree(r: int, value: int, upper: int) -> bool:
    """Whether this value and the one with other upper bits are one to both tags."""
    other = value % 2**128 + (upper << 128)
    after = [(v + 2**128) * r % PRIME % 2**128 for v in (value, other)]
    return other != value and other < PRIME and after[0] == after[1]


def test_ambiguous_keys_are_known() -> None:
    assert openssl._is_ambiguous(0)
    assert openssl._is_ambiguous(1)
    draw = random.Random("sealane ambiguous")
    rs = [
        *RS,
        *range(100),
        *(1 << bit & CLAMP for bit in range(124)),
        *(draw.getrandbits(128) & CLAMP for _ in range(500)),
    ]
    clear = [r for r in rs if not openssl._is_ambiguous(r)]
    assert len(clear) > 500
    values = [0, 1, 5, 2**128 - 1, PRIME - 1, *(draw.randrange(PRIME) for _ in range(20))]
    for r in clear:
        assert not any(agree(r, value, upper) for value in values for upper in range(4)), hex(r)


@pytest.mark.parametrize("r", RS, ids=hex)
def test_every_value_of_the_upper_bits(r: int) -> None:
    """Long updates from chosen states: the exported accumulator is right, whichever way it was computed."""
    draw = random.Random(f"sealane upper {r}")
    uppers = set()
    key = key_of(r, 0)
    for _ in range(60):
        start = draw.randrange(PRIME)
        message = draw.randbytes(16 * draw.choice((16, 17, 64)))
        mac = openssl.backend.poly1305_from_state(state_of(key, start))
        mac.update(message)
        expected = Tags(key, b"").absorbed(start, message)
        assert mac.export_state() == state_of(key, expected)
        uppers.add(expected >> 128)
    assert r < 2**26 or uppers == {0, 1, 2, 3}
