"""What a worker holds while it serves; the routes get it as one object."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from service.core import Core
from service.settings import Settings
from service.spool import Spool
from service.telemetry import OK, OUTCOME, Metrics
from service.wire import Watch

# Bytes of unfinished message bodies that a worker holds in memory; at least a few of the largest.
BODY_BUDGET = 512 * 2**20


class Runtime:
    """One worker: the core, its counters, and how far it is in its life.

    `ready` once it has started; `draining` once it has been told to end.
    """

    def __init__(self, core: Core, metrics: Metrics, watch: Watch) -> None:
        self.core = core
        self.settings: Settings = core.settings
        self.access = core.access
        self.audit = core.audit
        self.keyring = core.keyring
        self.metrics = metrics
        self.watch = watch
        settings = self.settings
        self.spool = Spool(settings.spool_folder, settings.spool_stream_bytes, settings.spool_total_bytes)
        self.ready = False
        self.draining = False
        self.log: Any = structlog.get_logger("sealane")

    @classmethod
    def open(cls, settings: Settings, metrics_folder: Path | None = None) -> Runtime:
        """As `Core.open`. Counters are shared with the other workers that are given the same folder."""
        core = Core.open(settings)
        metrics = Metrics(metrics_folder)
        core.uploads.checkpoints.observe = _checkpoints(metrics)
        return cls(
            core,
            metrics,
            Watch(settings.body_timeout, settings.body_min_rate, max(BODY_BUDGET, 4 * settings.max_message_bytes)),
        )

    def drain(self) -> None:
        """From now on this worker says that it is not ready; it still serves."""
        self.draining = True
        self.metrics.state("draining", 1)

    async def report(self) -> None:
        """Tell the metrics how storage and spool are; runs after each poll."""
        self.metrics.state("spool_bytes", self.spool.reserved)
        self.metrics.state("degraded", int(self.keyring.degraded))
        self.metrics.state("staleness_milliseconds", int(self.keyring.staleness_seconds * 1000))


def _checkpoints(metrics: Metrics) -> Callable[[float, bool], None]:
    """Counts what uploads write to the storage."""
    counters = metrics.call("upload-checkpoint", "storage")

    def observe(seconds: float, written: bool) -> None:
        started = counters.start() - int(seconds * 1e9)
        counters.finish(OK if written else OUTCOME["conflict"], started, 0, 0)

    return observe
