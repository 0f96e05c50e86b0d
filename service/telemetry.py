"""Metrics: counters in a file per worker that any worker sums at scrape.

A worker counts in a shared mmap of fixed slots, one 64-bit integer each, which costs a fraction of what a metrics
library's own objects do. Files of dead workers are kept and later merged, so no count is lost with a worker. A worker
holds a lock on its file for as long as it lives; that is how the others know that what it reports as a state holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
import sys
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from operator import add
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from service.problems import KINDS

# Operation and form of every call that is counted by itself; what has no body of messages is "json".
CALLS: Final = (
    *((operation, form) for operation in ("seal", "open", "mac", "verify") for form in ("raw", "json", "batch")),
    *((operation, "raw") for operation in (
        "seal-stream", "open-stream", "mac-stream", "verify-stream", "mac-stream-create", "mac-stream-ask",
        "mac-stream-abandon",
    )),
    # What uploads write to the storage on their way.
    ("upload-checkpoint", "storage"),
    *(
        (operation, "json")
        for operation in (
            "key-create", "key-list", "key-describe", "key-rotate", "key-delete", "key-undelete",
            "token-create", "token-list", "token-revoke", "engine", "operations", "other",
        )
    ),
)  # fmt: skip
OUTCOMES: Final = ("ok", "client-closed", *KINDS)
OUTCOME: Final = {name: index for index, name in enumerate(OUTCOMES)}
OK: Final = OUTCOME["ok"]
CLIENT_CLOSED: Final = OUTCOME["client-closed"]

# Upper bounds of the latency buckets in seconds; the last bucket has none.
BOUNDS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
_BOUNDS_NS: Final = tuple(round(bound * 1e9) for bound in BOUNDS)

# A call's block of slots: started, nanoseconds, bytes in, bytes out, then buckets, outcomes, outcomes of batch items.
_STARTED, _NANOSECONDS, _BYTES_IN, _BYTES_OUT, _BUCKETS = range(5)
_OUTCOMES: Final = _BUCKETS + len(BOUNDS) + 1
_ITEMS: Final = _OUTCOMES + len(OUTCOMES)
_BLOCK: Final = _ITEMS + len(OUTCOMES)

# States of a worker, after the blocks: name, help, and whether a scrape adds them up or takes the largest.
STATES: Final[tuple[tuple[str, str, Callable[[int, int], int]], ...]] = (
    ("degraded", "1 while a worker serves from what it had loaded because the storage is away", max),
    ("staleness_milliseconds", "Age of the oldest picture of keys and tokens that a worker serves from", max),
    ("draining", "1 while a worker finishes what it has before it ends", max),
    ("spool_bytes", "Bytes that streams hold reserved in the spool", add),
)
_STATES_AT: Final = len(CALLS) * _BLOCK
_SIZE: Final = _STATES_AT + len(STATES)

# Files of another layout, left by another version, are not read.
_LAYOUT: Final = sha256(
    repr((sys.byteorder, CALLS, OUTCOMES, BOUNDS, [state[0] for state in STATES])).encode()
).digest()
_HEADER: Final = len(_LAYOUT)
_SUFFIX: Final = ".metrics"
_RETIRED: Final = "retired" + _SUFFIX


class Call:
    """The counters of one operation in one form, in this worker. Not for use from two threads at once."""

    __slots__ = ("_base", "_slots", "started_at")

    def __init__(self, slots: memoryview[int], base: int) -> None:
        self._slots = slots
        self._base = base
        self.started_at = base + _STARTED

    def start(self) -> int:
        """Count a call as begun; returns the time that `finish` wants."""
        self._slots[self.started_at] += 1
        return time.perf_counter_ns()

    def finish(self, outcome: int, started: int, bytes_in: int, bytes_out: int) -> None:
        """Count the end of a call that began at `started` (nanoseconds of `time.perf_counter_ns`)."""
        slots = self._slots
        base = self._base
        elapsed = time.perf_counter_ns() - started
        slots[base + _OUTCOMES + outcome] += 1
        slots[base + _BUCKETS + bisect_left(_BOUNDS_NS, elapsed)] += 1
        slots[base + _NANOSECONDS] += elapsed
        slots[base + _BYTES_IN] += bytes_in
        slots[base + _BYTES_OUT] += bytes_out

    def move(self, other: Call) -> None:
        """A call that was begun here turned out to be one of `other`, where it is to be finished."""
        self._slots[self.started_at] -= 1
        other._slots[other.started_at] += 1

    def items(self, outcome: int, count: int) -> None:
        """Count `count` items of a batch that ended as `outcome`."""
        self._slots[self._base + _ITEMS + outcome] += count


class Metrics:
    """This worker's counters and the sum of all workers' that share `folder`; without one, this worker's alone."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._file: int | None = None
        self._path: Path | None = None
        size = _HEADER + 8 * _SIZE
        if folder is None:
            self._map = mmap.mmap(-1, size)
        else:
            with _locked(folder):
                _retire(folder)
                # Under another name until it is locked and complete, so that nobody takes it for a dead worker's.
                path = folder / f"worker-{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
                draft = path.with_suffix(".new")
                self._file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._file, fcntl.LOCK_EX)
                os.write(self._file, _LAYOUT)
                os.ftruncate(self._file, size)
                self._map = mmap.mmap(self._file, size)
                draft.rename(path)
                self._path = path
        self._bytes = memoryview(self._map)[_HEADER:]
        self._slots: memoryview[int] = self._bytes.cast("Q")
        self.calls = {call: Call(self._slots, index * _BLOCK) for index, call in enumerate(CALLS)}
        self.registry = CollectorRegistry()
        self.registry.register(self)  # anything with collect() is a collector

    def call(self, operation: str, form: str = "json") -> Call:
        """The counters of `operation` in `form`, which are among `CALLS`."""
        return self.calls[operation, form]

    def state(self, name: str, value: int) -> None:
        """Set a state of this worker, which is among `STATES`."""
        index = next(index for index, state in enumerate(STATES) if state[0] == name)
        self._slots[_STATES_AT + index] = value

    def close(self) -> None:
        """Let go of the file. Its counts stay: a scrape of another worker still sums them."""
        self.calls.clear()
        with contextlib.suppress(BufferError):  # somebody still counts: the map then goes with its last user
            self._slots.release()
            self._bytes.release()
            self._map.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """The text for a scrape and its media type, as `accept` prefers."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def _workers(self) -> Iterator[tuple[array[int], bool]]:
        """The slots of each worker, and whether it lives."""
        if self._folder is None:
            yield array("Q", self._slots), True
            return
        with _locked(self._folder):
            for path in sorted(self._folder.glob("*" + _SUFFIX)):
                if path == self._path:
                    yield array("Q", self._slots), True
                    continue
                read = _read(path)
                if read is not None:
                    yield read

    def collect(self) -> Iterable[Metric]:
        """What Prometheus sees. States and calls in flight are of living workers only."""
        total = array("Q", bytes(8 * _SIZE))
        in_flight = [0] * len(CALLS)
        states = [0] * len(STATES)
        living = 0
        for slots, lives in self._workers():
            _add(total, slots)
            if lives:
                living += 1
                for index in range(len(CALLS)):
                    base = index * _BLOCK
                    ended = sum(slots[base + _OUTCOMES : base + _ITEMS])
                    in_flight[index] += max(0, slots[base + _STARTED] - ended)
                for index, (_, _, merge) in enumerate(STATES):
                    states[index] = merge(states[index], slots[_STATES_AT + index])
        return _families(total, in_flight, states, living)


def _families(total: array[int], in_flight: list[int], states: list[int], living: int) -> list[Metric]:
    labels = ["operation", "form"]
    calls = CounterMetricFamily("sealane_calls", "Calls by how they ended", labels=[*labels, "outcome"])
    items = CounterMetricFamily("sealane_items", "Items of batches by how they ended", labels=["operation", "outcome"])
    received = CounterMetricFamily("sealane_received_bytes", "Bytes of request bodies", labels=labels)
    sent = CounterMetricFamily("sealane_sent_bytes", "Bytes of answers' bodies", labels=labels)
    seconds = HistogramMetricFamily("sealane_call_seconds", "Time from a call's head to its answer", labels=labels)
    flying = GaugeMetricFamily("sealane_calls_in_flight", "Calls that have begun and not ended", labels=labels)
    for index, call in enumerate(CALLS):
        base = index * _BLOCK
        if not total[base + _STARTED]:
            continue
        for outcome, name in enumerate(OUTCOMES):
            if count := total[base + _OUTCOMES + outcome]:
                calls.add_metric([*call, name], count)
            if count := total[base + _ITEMS + outcome]:
                items.add_metric([call[0], name], count)
        received.add_metric(call, total[base + _BYTES_IN])
        sent.add_metric(call, total[base + _BYTES_OUT])
        flying.add_metric(call, in_flight[index])
        buckets, so_far = [], 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), total[base + _BUCKETS : base + _OUTCOMES], strict=True):
            so_far += count
            buckets.append((bound, so_far))
        seconds.add_metric(call, buckets, sum_value=total[base + _NANOSECONDS] / 1e9)
    gauges = [GaugeMetricFamily("sealane_workers", "Workers that are alive", value=living)]
    gauges += [
        GaugeMetricFamily(f"sealane_{name}", text, value=value)
        for (name, text, _), value in zip(STATES, states, strict=True)
    ]
    return [calls, items, received, sent, seconds, flying, *gauges]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One worker at a time looks at, adds to or tidies the files."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _read(path: Path) -> tuple[array[int], bool] | None:
    """The slots in a file and whether its worker lives; None if it is of another layout."""
    with path.open("rb") as file:
        content = file.read()
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            lives = False
        except OSError:
            lives = True
    if content[:_HEADER] != _LAYOUT or len(content) != _HEADER + 8 * _SIZE:
        return None
    return array("Q", content[_HEADER:]), lives


def _retire(folder: Path) -> None:
    """Merge the files of dead workers into one, so that restarts do not pile them up. The folder is locked."""
    total = array("Q", bytes(8 * _SIZE))
    dead: list[Path] = []
    for path in folder.glob("*" + _SUFFIX):
        read = _read(path)
        if read is not None and not read[1]:
            _add(total, read[0])
            dead.append(path)
    if dead:
        draft = folder / "retired.new"
        draft.write_bytes(_LAYOUT + total.tobytes())
        draft.replace(folder / _RETIRED)
        for path in dead:
            if path.name != _RETIRED:
                path.unlink()


def _add(total: array[int], slots: array[int]) -> None:
    for index, value in enumerate(slots):
        if value:
            total[index] += value
