"""Errors that are the user's or the operator's to mend, told in one line with an exit code, never as a traceback."""

from __future__ import annotations

from typing import Any

from typer import Context
from typer.core import TyperGroup

from service.cli.console import CONFIG, FAILED, NO_PERMISSION, UNAVAILABLE, USAGE, fail
from service.errors import Malformed, NotAllowed, NotAuthenticated, SealaneError, SetupError, StorageUnavailable

# The first class that fits decides.
_CODES: tuple[tuple[type[SealaneError], int], ...] = (
    (SetupError, CONFIG),
    (StorageUnavailable, UNAVAILABLE),
    (NotAuthenticated, NO_PERMISSION),
    (NotAllowed, NO_PERMISSION),
    (Malformed, USAGE),
)


class Group(TyperGroup):
    """A group of commands in which the service's own errors end in one line on standard error."""

    def invoke(self, ctx: Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except SealaneError as error:
            fail(error.detail, next((code for kind, code in _CODES if isinstance(error, kind)), FAILED))
