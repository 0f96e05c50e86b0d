"""uvicorn, set up for the service: workers, protocol, logs, memory and signals."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from service import logs
from service.app import create_app
from service.protocol import FAST, FUSED, exchange_fits
from service.runtime import Runtime
from service.settings import Settings

_log = logging.getLogger("sealane.server")

# glibc gives the memory of large bodies back after each call and faults it in again for the next, which costs about
# as much as sealing them. It takes no larger threshold for mmap than 32 MiB.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_MALLOC = ((_M_TRIM_THRESHOLD, 256 * 2**20), (_M_MMAP_THRESHOLD, 32 * 2**20), (_M_TOP_PAD, 16 * 2**20))


class Worker:
    """Makes the application in a worker process; pickled on its way there."""

    def __init__(self, settings: Settings, metrics_folder: Path) -> None:
        self.settings = settings
        self.metrics_folder = metrics_folder

    def __call__(self) -> Any:
        logs.configure(self.settings.log_level)
        keep_memory()
        return create_app(self.settings, self.metrics_folder, _started).dispatch


def _started(runtime: Runtime) -> None:
    """Once all is loaded: what is here stays, so the garbage collector need not look at it again and again."""
    drain_on_signal(runtime)
    gc.collect()
    gc.freeze()


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; blocks. SystemExit if a worker can't start, after logging why.

    A SealaneError (a wrong master key, a missing schema, ...) is raised before anything listens.
    """
    logs.configure(settings.log_level)
    keep_memory()
    _check(settings)
    workers = settings.workers or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="sealane-metrics-") as folder:
        config = configuration(settings, Worker(settings, Path(folder)), workers)
        if workers > 1:
            sock = config.bind_socket()
            Multiprocess(config, sockets=[sock]).run()
            return
        server = uvicorn.Server(config)
        server.run()
        if not server.started:
            sys.exit(3)


def configuration(settings: Settings, app: Any, workers: int = 1) -> uvicorn.Config:
    """uvicorn's configuration. `app`: a factory of the application."""
    fused = settings.fused_writes and exchange_fits()
    if settings.fused_writes and not fused:
        _log.info("answers are written as uvicorn does it: this version is not one that fused writes were tested with")
    return uvicorn.Config(
        app,
        factory=True,
        interface="asgi3",
        # Nothing here depends on who the client says it is.
        proxy_headers=False,
        host=settings.host,
        port=settings.port,
        workers=workers,
        root_path=settings.root_path,
        http=FUSED if fused and FUSED is not None else FAST,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # A worker answers only once all is imported. On a busy or emulated machine uvicorn's five seconds are over
        # before that, and it would kill one worker after the other for ever.
        timeout_worker_healthcheck=120,
        timeout_keep_alive=max(1, round(settings.keep_alive_timeout)),
        timeout_graceful_shutdown=max(1, round(settings.drain_timeout)),
    )


def keep_memory() -> bool:
    """Have glibc's malloc keep what large bodies needed. False where it is another malloc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    kept = [mallopt(option, value) == 1 for option, value in _MALLOC]
    return all(kept)


def drain_on_signal(runtime: Runtime) -> None:
    """Have SIGTERM make readiness fail, for `readiness_delay` before uvicorn's own handler ends the server.

    A second SIGTERM ends it at once. To be called in the worker's loop.
    """
    loop = asyncio.get_running_loop()
    delay = runtime.settings.readiness_delay
    try:
        before = signal.getsignal(signal.SIGTERM)

        def drain(number: int, frame: FrameType | None) -> None:
            again = runtime.draining
            runtime.drain()
            if not again:
                # Uploads resume elsewhere; they are written down now, and end before they would be cut.
                loop.call_soon_threadsafe(runtime.core.uploads.drain, delay + runtime.settings.drain_timeout / 2)
            if not callable(before):
                return
            if delay and not again:
                loop.call_soon_threadsafe(loop.call_later, delay, before, number, frame)
            else:
                before(number, frame)

        signal.signal(signal.SIGTERM, drain)
    except ValueError:
        return  # not the main thread: whoever runs us there handles signals


def _check(settings: Settings) -> None:
    """Find out here, once, what would otherwise fail in every worker."""
    from service.core import Core

    core = Core.open(settings)
    core.audit.close()
    core.database.close()
