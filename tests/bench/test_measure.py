"""Interleaved timing gives ratios that follow the work that is done."""

from __future__ import annotations

from hashlib import sha256

import pytest

from service.bench.measure import Contender, Timings, interleave


def test_ratio_is_the_median_of_the_rounds() -> None:
    ours = Timings((10.0, 10.0, 1000.0))
    peer = Timings((20.0, 30.0, 1000.0))
    assert ours.nanoseconds == 10.0
    assert ours.ratio_to(peer) == 2.0


def test_twice_the_work_is_half_as_fast() -> None:
    data = bytes(16 << 10)

    def once() -> None:
        sha256(data)

    def twice() -> None:
        sha256(data)
        sha256(data)

    timings = interleave({"once": Contender(once, ()), "twice": Contender(twice, ())}, rounds=101, burst_seconds=0.0003)
    assert timings["once"].ratio_to(timings["twice"]) == pytest.approx(2.0, rel=0.35)


def test_every_contender_runs_in_every_round_and_is_activated_before_each_burst() -> None:
    activated: list[str] = []
    seen: list[tuple[int, str]] = []
    contenders = {
        name: Contender(lambda *arguments: seen.append(arguments), (1, name), lambda name=name: activated.append(name))
        for name in ("a", "b", "c")
    }
    timings = interleave(contenders, rounds=3, burst_seconds=1e-5)
    assert {name: len(result.rounds) for name, result in timings.items()} == {"a": 3, "b": 3, "c": 3}
    assert activated == ["a", "b", "c", *"abc", *"bca", *"cab"]
    assert set(seen) == {(1, "a"), (1, "b"), (1, "c")}
    assert all(figure > 0 for result in timings.values() for figure in result.rounds)


def test_function_without_arguments() -> None:
    assert len(interleave({"x": Contender(list, ())}, 2, 1e-5)["x"].rounds) == 2
