"""A MAC that is begun on one architecture is finished on another, from every kernel to every other."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import PROGRAMS
from models import BEST_MODELS, Model

pytestmark = pytest.mark.emulated

CUTS = [0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 511, 512, 1000, 1024, 2047, 2048, 2049, 4097, 6000]
# Ordinary, and limbs full of ones all the way: r as large as clamping leaves it, blocks of ones, s that carries out.
CASES = {
    "ordinary": (bytes(range(32)), bytes(i * 7 & 255 for i in range(6000))),
    "ones": (b"\xff" * 32, b"\xff" * 6000),
    "near p": (b"\x02" + bytes(31), (b"\xfb" + b"\xff" * 15) * 375),
}


@dataclass(frozen=True)
class Machine:
    """Where a part of the work runs: a guest, or this machine itself if there is no model."""

    model: Model | None

    def __str__(self) -> str:
        return str(self.model.architecture.name) if self.model else "here"


MACHINES = [Machine(None), *(Machine(model) for model in BEST_MODELS)]


def poly1305(key: bytes, message: bytes) -> bytes:
    """RFC 8439 section 2.5, in Python's own integers."""
    r, s = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF, int.from_bytes(key[16:], "little")
    total = 0
    for start in range(0, len(message), 16):
        block = message[start : start + 16] + b"\1"
        total = (total + int.from_bytes(block, "little")) * r % (2**130 - 5)
    return ((total + s) & (2**128 - 1)).to_bytes(16, "little")


@pytest.mark.parametrize("case", CASES)
def test_states_move_between_machines(
    case: str, python: Callable[..., list[str]], run: Callable[..., str], site: Callable[[str], Path]
) -> None:
    key, message = CASES[case]

    def answer(machine: Machine, **job: object) -> dict[str, object]:
        if machine.model is None:
            # From the wheel too; -S leaves out whatever is installed here.
            environment = f"PYTHONPATH={site('x86_64')}"
            command = ["env", environment, sys.executable, "-S", str(PROGRAMS / "states.py")]
        else:
            command = python(machine.model, "/src/programs/states.py")
        given = json.dumps({"key": key.hex(), "message": message.hex(), **job})
        found: dict[str, object] = json.loads(run(command, given=given))
        assert list(found)[:-1] == (machine.model.kernels if machine.model else list(found)[:-1])
        return found

    states: dict[tuple[int, str], list[str]] = {}  # (cut, state): who exported it
    for machine in MACHINES:
        for kernel, exported in answer(machine, cuts=CUTS).items():
            assert isinstance(exported, dict)
            for cut, state in exported.items():
                states.setdefault((int(cut), state), []).append(f"{kernel} on {machine}")
    # Canonical: at one cut all kernels everywhere export the very same bytes.
    assert sorted(cut for cut, _ in states) == CUTS, [who for who in states.values() if len(who) < len(MACHINES)]
    tag = poly1305(key, message).hex()
    for machine in MACHINES:
        for kernel, tags in answer(machine, states=list(states)).items():
            assert tags == [tag] * len(CUTS), f"{kernel} on {machine}"


def test_the_oracle_itself() -> None:
    """RFC 8439 section 2.5.2."""
    key = bytes.fromhex("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b")
    assert poly1305(key, b"Cryptographic Forum Research Group").hex() == "a8061dc1305136c6c22b8baf0c0127a9"
