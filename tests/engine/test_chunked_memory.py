"""A stream's length does not show in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import engine

PROGRAM = Path(__file__).parent / "chunked_memory_program.py"
MIB = 1024 * 1024
SHORT, LONG = 8, 200


def peak(size: int) -> int:
    """KiB at most, of a process of its own."""
    ran = subprocess.run([sys.executable, PROGRAM, str(size)], capture_output=True, text=True, check=True)
    done, kib = map(int, ran.stdout.split())
    assert done == size * MIB + 3
    return kib


@pytest.mark.skipif(engine.info().backend != "native", reason="200 MiB take too long in Python")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_the_stream() -> None:
    assert peak(LONG) - peak(SHORT) < 2048
