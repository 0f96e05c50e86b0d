"""The application that holds all commands."""

from __future__ import annotations

import typer

from service.cli import bench

app = typer.Typer(
    name="sealane",
    help="Sealane: seals, opens and MACs over HTTP, with keys that never leave the service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, and some of ours are secrets
)
app.add_typer(bench.app, name="bench")
