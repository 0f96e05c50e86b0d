"""sealane selftest: known answers on every kernel and backend."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

import engine
from service.cli.console import FAILED, out, print_json


def selftest(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Test every kernel and backend against known answers. Fails if one that could be used gives a wrong one."""
    outcomes = engine.check()
    info = engine.info()
    if json:
        print_json({"in_use": info.kernel, "outcomes": outcomes})
    else:
        table = Table("kernel or backend", "self-test", "")
        for name, outcome in outcomes.items():
            style = "green" if outcome == "ok" else "dim" if _is_absent(outcome) else "bold red"
            verdict = outcome if outcome == "ok" or _is_absent(outcome) else f"failed: {outcome}"
            table.add_row(name, f"[{style}]{verdict}[/{style}]", "in use" if name == info.kernel else "")
        out.print(table)
    if any(outcome != "ok" and not _is_absent(outcome) for outcome in outcomes.values()):
        raise typer.Exit(FAILED)


def _is_absent(outcome: str) -> bool:
    """Whether a backend's package is just not installed, which is nothing wrong."""
    return outcome.startswith("not available")
