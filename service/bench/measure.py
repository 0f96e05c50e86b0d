"""Interleaved timing: every contender runs a short burst in every round, so noise from outside hits all alike and the
median of the per-round ratios stays steady."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contender:
    """One function with its arguments, made once. `activate` runs before each burst, outside the timing."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    activate: Callable[[], None] = lambda: None

    def timer(self) -> timeit.Timer:
        """A timer whose loop holds nothing but the call: function and arguments are local variables in it."""
        names = ", ".join(f"a{index}" for index in range(len(self.arguments)))
        unpack = f"f, ({names},) = function, arguments" if names else "f = function"
        scope = {"function": self.function, "arguments": self.arguments}
        return timeit.Timer(f"f({names})", unpack, globals=scope)


@dataclass(frozen=True)
class Timings:
    """Nanoseconds per call, one figure a round."""

    rounds: tuple[float, ...]

    @property
    def nanoseconds(self) -> float:
        """The median over all rounds."""
        return statistics.median(self.rounds)

    def ratio_to(self, peer: Timings) -> float:
        """How many times as fast as `peer`: the median of the ratios within each round."""
        return statistics.median(theirs / mine for mine, theirs in zip(self.rounds, peer.rounds, strict=True))


def _calls_per_burst(timer: timeit.Timer, seconds: float) -> int:
    calls = 1
    while (taken := timer.timeit(calls)) < seconds / 2:
        calls *= max(2, min(10, int(seconds / 2 / taken))) if taken > 0 else 10
    return max(1, round(calls * seconds / taken)) if taken > 0 else calls


def interleave(contenders: Mapping[str, Contender], rounds: int, burst_seconds: float) -> dict[str, Timings]:
    """Time all contenders alternately: `rounds` bursts of about `burst_seconds` each, in an order that rotates."""
    timers: dict[str, tuple[Contender, timeit.Timer, int]] = {}
    for name, contender in contenders.items():
        contender.activate()
        timer = contender.timer()
        timers[name] = (contender, timer, _calls_per_burst(timer, burst_seconds))
    order: Sequence[str] = list(contenders)
    taken: dict[str, list[float]] = {name: [] for name in order}
    for number in range(rounds):
        start = number % len(order)
        for name in (*order[start:], *order[:start]):
            contender, timer, calls = timers[name]
            contender.activate()
            taken[name].append(timer.timeit(calls) / calls * 1e9)
    return {name: Timings(tuple(figures)) for name, figures in taken.items()}
