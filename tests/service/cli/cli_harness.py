"""Types that the tests of commands and clients share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from typer.testing import Result

Run = Callable[..., Result]


@dataclass(frozen=True)
class Server:
    """Where a development server is, and a token that may do everything."""

    url: str
    token: str
