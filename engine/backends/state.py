"""The canonical state of an unfinished Poly1305: 66 bytes that any backend on any machine goes on from.

version 1 (1 byte) || key (32) || accumulator, little-endian, less than 2^130 - 5 (17) || pending length (1)
|| pending bytes, zero padded (15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.backends import arguments
from engine.protocol import KEY_SIZE

if TYPE_CHECKING:
    from typing_extensions import Buffer

PRIME = 2**130 - 5
BLOCK_SIZE = 16
STATE_SIZE = 66
_VERSION = 1
_ACCUMULATOR_SIZE = 17
_PENDING_SIZE = BLOCK_SIZE - 1


class State(NamedTuple):
    key: bytes
    accumulator: int
    pending: bytes


def pack(state: State) -> bytes:
    return b"".join(
        (
            bytes([_VERSION]),
            state.key,
            state.accumulator.to_bytes(_ACCUMULATOR_SIZE, "little"),
            bytes([len(state.pending)]),
            state.pending.ljust(_PENDING_SIZE, b"\0"),
        )
    )


def unpack(value: Buffer) -> State:
    """Raises ``TypeError`` and ``ValueError``; the same state never has two spellings."""
    raw = arguments.sized("state", value, STATE_SIZE)
    key, rest = raw[1 : 1 + KEY_SIZE], raw[1 + KEY_SIZE :]
    accumulator = int.from_bytes(rest[:_ACCUMULATOR_SIZE], "little")
    length, pending = rest[_ACCUMULATOR_SIZE], rest[_ACCUMULATOR_SIZE + 1 :]
    if raw[0] != _VERSION or accumulator >= PRIME or length > _PENDING_SIZE or any(pending[length:]):
        raise ValueError(
            "state must be what export_state() returned: its version, accumulator or pending bytes are not"
        )
    return State(key, accumulator, pending[:length])
