"""Keys lie in memory that is locked where allowed and left out of core dumps, nowhere else, and nowhere once released.

A program of its own holds the key, and is looked into from outside: whatever looked from inside would put copies there.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from effort import SMALL

import engine

PROGRAM = Path(__file__).parent / "secret_memory_program.py"
KINDS = ("aead", "mac-key", "poly1305")

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
    pytest.mark.skipif(SMALL, reason="an emulator's own memory is in the way"),
    pytest.mark.skipif(engine.info().backend != "native", reason="the native backend keeps the keys"),
]


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    writable: bool
    flags: frozenset[str]
    locked_kib: int


@dataclass
class Program:
    """The program under way, stopped at what it said last."""

    process: subprocess.Popen[bytes]

    def expect(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == word.encode() + b"\n"

    def go_on(self) -> None:
        self.send(b".")

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def mappings(self) -> list[Mapping]:
        found: list[Mapping] = []
        text = Path(f"/proc/{self.process.pid}/smaps").read_text()
        for part in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", text)[1:]:
            first, *rest = part.splitlines()
            bounds, rights = first.split()[:2]
            start, end = (int(bound, 16) for bound in bounds.split("-"))
            fields = dict(line.split(":", 1) for line in rest)
            locked = int(fields["Locked"].split()[0])
            found.append(Mapping(start, end, "w" in rights, frozenset(fields["VmFlags"].split()), locked))
        return found

    def holding(self, secret: bytes) -> list[Mapping]:
        """The mapping of each copy of the secret, or of half of it."""
        found = []
        with open(f"/proc/{self.process.pid}/mem", "rb", buffering=0) as memory:
            for mapping in self.mappings():
                if mapping.writable:
                    content = os.pread(memory.fileno(), mapping.end - mapping.start, mapping.start)
                    halves = (secret[: len(secret) // 2], secret[len(secret) // 2 :])
                    found += [mapping] * max(content.count(half) for half in halves)
        return found


@contextmanager
def running(kernel: str, kind: str, limit: str) -> Iterator[Program]:
    command = [sys.executable, "-B", str(PROGRAM), kind, limit]
    environment = os.environ | {"SEALANE_ENGINE": kernel}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


def may_lock() -> bool:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return os.geteuid() == 0 or soft == resource.RLIM_INFINITY or soft >= 1 << 20


def check_guarded(program: Program, key: bytes) -> None:
    held = program.holding(key)
    assert held
    for mapping in held:
        assert "dd" in mapping.flags, "not left out of core dumps"
        if may_lock():
            assert "lo" in mapping.flags, "not locked"
            assert mapping.locked_kib > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", dict.fromkeys((engine.info().kernels[0], engine.info().kernels[-1])))
def test_keys_lie_in_guarded_memory_and_are_wiped(kernel: str, kind: str) -> None:
    key = os.urandom(32)
    with running(kernel, kind, "as-it-is") as program:
        program.send(key)
        program.expect("held")
        check_guarded(program, key)
        program.go_on()
        program.expect("used")
        check_guarded(program, key)
        program.go_on()
        program.expect("released")
        assert program.holding(key) == []


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_held_where_no_memory_may_be_locked(kind: str) -> None:
    """Then they are left out of core dumps and wiped all the same."""
    key = os.urandom(32)
    with running(engine.info().kernels[0], kind, "no-lock") as program:
        program.send(key)
        program.expect("held")
        held = program.holding(key)
        assert held
        assert all("dd" in mapping.flags for mapping in held)
        assert not any("lo" in mapping.flags for mapping in held), "the limit was not in force: nothing is shown"
        program.go_on()
        program.expect("used")
        program.go_on()
        program.expect("released")
        assert program.holding(key) == []
