"""What commands share: two consoles, and errors of the user's told in one line without a traceback."""

from __future__ import annotations

from typing import NoReturn

import msgspec
import typer
from rich.console import Console

out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)

# Exit codes, after sysexits(3) where it has a fitting one: 1 something failed, 2 wrong usage (typer's own).
FAILED = 1
USAGE = 2
UNAVAILABLE = 69
NO_PERMISSION = 77
CONFIG = 78


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Tell the user in one line what was wanted, and exit with `code`."""
    err.print(f"sealane: {message}", style="red", markup=False)
    raise typer.Exit(code)


def print_json(value: object) -> None:
    """Print a value as indented JSON on standard output."""
    print(msgspec.json.format(msgspec.json.encode(value)).decode())
