"""`sealane bench engine`: every usable kernel against the peers, per call from Python, in one run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import msgspec

import engine
from service.bench.cases import Case, all_cases
from service.bench.measure import interleave
from service.bench.targets import engine_target
from service.server import keep_memory

# What OpenSSL is told to overlook so that it runs on AVX2 alone: the AVX-512 bits (F, DQ, IFMA, CD, BW, VL) of
# CPUID leaf 7, EBX. See OPENSSL_ia32cap(3).
_IA32CAP = "OPENSSL_ia32cap"
IA32CAP_AVX2_ONLY = ":~0xd0230000"

_PEER = "the peer"  # no kernel has this name


@dataclass(frozen=True)
class Result:
    """One call on one kernel beside the peer's. Times are medians over the rounds, in nanoseconds per call."""

    operation: str
    size: int
    kernel: str
    peer: str
    nanoseconds: float
    peer_nanoseconds: float
    ratio: float
    target: float | None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.target is None else self.ratio >= self.target


@dataclass(frozen=True)
class Settings:
    """How long to measure: `rounds` bursts of `burst_seconds` for each contender of each case."""

    rounds: int = 40
    burst_seconds: float = 0.001


def as_record(result: Result) -> dict[str, object]:
    """A result as `--json` prints it: its fields, and whether the target is met."""
    return {**asdict(result), "met": result.met}


def peer_is_limited() -> bool:
    """Whether OpenSSL in this process was told to overlook AVX-512."""
    return os.environ.get(_IA32CAP) == IA32CAP_AVX2_ONLY


def measure(case: Case, kernel: str, settings: Settings) -> Result:
    """Time one case on `kernel` and the peer, alternately: two at a time, so that turns of both lie close together."""
    use = partial(engine.use, kernel)
    use()
    ours = replace(case.ours(), activate=use)
    timings = interleave({kernel: ours, _PEER: case.peer()}, settings.rounds, settings.burst_seconds)
    mine, peer = timings[kernel], timings[_PEER]
    limited = peer_is_limited() and case.peer_name == "cryptography"
    return Result(
        operation=case.operation,
        size=case.size,
        kernel=kernel,
        peer=f"{case.peer_name} on AVX2 alone" if limited else case.peer_name,
        nanoseconds=mine.nanoseconds,
        peer_nanoseconds=peer.nanoseconds,
        ratio=mine.ratio_to(peer),
        target=engine_target(case.operation, case.size, kernel, limited),
    )


def run(
    kernels: Sequence[str],
    settings: Settings,
    progress: Callable[[str, int], None] = lambda operation, size: None,
    only: Callable[[Case], bool] = lambda case: True,
) -> list[Result]:
    """Measure every case on `kernels`, and leave the engine as it was. ValueError for an unknown kernel.

    Has glibc's malloc keep its memory, for this whole process.
    """
    # As the service does: else a side whose buffers happen to lie at the heap's end faults them in at every call.
    keep_memory()
    before = engine.info().kernel
    try:
        results: list[Result] = []
        for case in filter(only, all_cases()):
            progress(case.operation, case.size)
            results += [measure(case, kernel, settings) for kernel in kernels]
        return results
    finally:
        engine.use(before)


def run_against_limited_peer(kernel: str, settings: Settings) -> list[Result]:
    """The cases against `cryptography` again, in a process whose OpenSSL has AVX2 alone.

    CalledProcessError if that process fails.
    """
    command = [sys.executable, "-m", "service.bench.engine", kernel, str(settings.rounds), str(settings.burst_seconds)]
    environment = {**os.environ, _IA32CAP: IA32CAP_AVX2_ONLY}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=list[Result])


def _child(kernel: str, rounds: str, burst_seconds: str) -> None:
    settings = Settings(int(rounds), float(burst_seconds))
    results = run([kernel], settings, only=lambda case: case.peer_name == "cryptography")
    sys.stdout.buffer.write(msgspec.json.encode(results))


if __name__ == "__main__":
    _child(*sys.argv[1:])
