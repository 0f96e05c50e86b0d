"""Logs as JSON lines on standard error, ours and those of the libraries we run on, without anything of a request.

An exception is logged as its type and the places it came through. Its message is left out, because messages quote
what they choke on, and that may be a key, a token or plaintext.
"""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType
from typing import TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def where(error: BaseException) -> list[str]:
    """The frames that `error` came through, outermost first, as file:line function; no values and no source."""
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]


def _without_messages(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace an exception by its type, where it came through, and the types of what caused it."""
    info = event.pop("exc_info", None)
    error: BaseException | None = None
    if isinstance(info, BaseException):
        error = info
    elif isinstance(info, tuple):
        error = info[1]
    elif info:
        error = sys.exc_info()[1]
    if error is not None:
        event["error"] = f"{type(error).__module__}.{type(error).__qualname__}"
        event["at"] = where(error)
        cause = error.__cause__ or error.__context__
        if cause is not None:
            event["caused_by"] = f"{type(cause).__module__}.{type(cause).__qualname__}"
    return event


_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    _without_messages,
]


class _Plain(logging.Filter):
    """Drops what uvicorn adds for terminals: a second, coloured copy of its message."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.__dict__.pop("color_message", None)
        return True


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send every log line of this process to `stream` (standard error) as one JSON object, from `level` on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(_Plain())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), structlog.stdlib.add_logger_name, *_SHARED],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "fastapi"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = True
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # One line per call is ours to write, and uvicorn's would hold the path.
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("uvicorn.access").propagate = False
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
