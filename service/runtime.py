"""What a worker holds while it serves; the routes get it as one object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import structlog

from service.access import Access
from service.audit import AuditTrail
from service.follower import Follower
from service.keyring import Keyring
from service.settings import Settings
from service.storage import Database
from service.telemetry import Metrics
from service.wire import Watch


@dataclass
class Runtime:
    """The parts of one worker. `draining` is set once it has been told to end; `ready` once it has started."""

    settings: Settings
    database: Database
    follower: Follower
    audit: AuditTrail
    access: Access
    keyring: Keyring
    metrics: Metrics
    watch: Watch
    ready: bool = False
    draining: bool = False
    log: Any = field(default_factory=lambda: structlog.get_logger("sealane"))

    def drain(self) -> None:
        """From now on this worker says that it is not ready; it still serves."""
        self.draining = True
        self.metrics.state("draining", 1)
