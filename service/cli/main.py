"""The application that holds all commands."""

from __future__ import annotations

import typer

from service.cli import bench, key, master_key, token
from service.cli.errors import Group
from service.cli.init import init
from service.cli.mac import mac
from service.cli.selftest import selftest
from service.cli.serve import serve
from service.cli.streams import open_, seal

app = typer.Typer(
    name="sealane",
    cls=Group,
    help="Sealane: seals, opens and MACs over HTTP, with keys that never leave the service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, and some of ours are secrets
)
app.command()(serve)
app.command()(init)
app.add_typer(token.app, name="token")
app.add_typer(key.app, name="key")
app.command()(seal)
app.command("open")(open_)
app.command()(mac)
app.add_typer(master_key.app, name="master-key")
app.command()(selftest)
app.add_typer(bench.app, name="bench")
