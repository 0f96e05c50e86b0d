"""Errors that are the user's or the operator's to mend, told in one line with an exit code, never as a traceback."""

from __future__ import annotations

from typing import Any

import httpx
import pydantic
from typer import Context
from typer.core import TyperGroup

from service.cli.console import CONFIG, FAILED, NO_PERMISSION, UNAVAILABLE, USAGE, fail
from service.client import errors as answers
from service.errors import (
    Malformed,
    NotAllowed,
    NotAuthenticated,
    SealaneError,
    SetupError,
    StorageUnavailable,
)

# The first class that fits decides.
_CODES: tuple[tuple[type[SealaneError], int], ...] = (
    (SetupError, CONFIG),
    (StorageUnavailable, UNAVAILABLE),
    (NotAuthenticated, NO_PERMISSION),
    (NotAllowed, NO_PERMISSION),
    (Malformed, USAGE),
)


class Group(TyperGroup):
    """A group of commands whose foreseeable errors end in one line on standard error."""

    def invoke(self, ctx: Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except SealaneError as error:
            fail(error.detail, next((code for kind, code in _CODES if isinstance(error, kind)), FAILED))
        except answers.ServiceError as error:
            fail(str(error), _answer_code(error))
        except httpx.TransportError as error:
            fail(f"the service can't be reached: {error}; is SEALANE_URL right and the service up?", UNAVAILABLE)
        except httpx.InvalidURL as error:
            fail(f"SEALANE_URL must be a URL such as http://127.0.0.1:8417: {error}", CONFIG)
        except pydantic.ValidationError as error:
            fail(_settings_text(error), CONFIG)


def _answer_code(error: answers.ServiceError) -> int:
    if isinstance(error, (answers.NotAuthenticated, answers.NotAllowed)):
        return NO_PERMISSION
    if isinstance(error, answers.Malformed):
        return USAGE
    return UNAVAILABLE if error.status == 503 else FAILED


def _settings_text(error: pydantic.ValidationError) -> str:
    """Names the variables and the rules; never the values, one of which may be a password."""
    parts = [
        f"SEALANE_{'_'.join(map(str, item['loc'])).upper()}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return "; ".join(parts)
