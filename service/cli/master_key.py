"""sealane master-key: add, rewrap, status."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli import configured
from service.cli.configured import DevOption
from service.cli.console import out
from service.cli.errors import Group

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="The master key: rotate it without an interruption. Works on the storage itself.",
)


@app.command()
def add(
    file: Annotated[Path, typer.Argument(help="Where the new master key is, or is to be made (mode 0600).")],
    dev: DevOption = False,
) -> None:
    """Make a further master key and have the database know it. It wraps nothing yet."""
    from service import rotation
    from service.cli.storage import operator

    id = rotation.add(configured.load(dev), file, operator())
    out.print(f"the database knows the master key in {file} as number {id}", markup=False)


@app.command()
def rewrap(dev: DevOption = False) -> None:
    """Wrap all keys anew under the master key in SEALANE_MASTER_KEY_FILE, with the one they are under in
    SEALANE_MASTER_KEY_OTHER_FILE."""
    from service import rotation
    from service.cli.storage import operator

    count = rotation.rewrap(configured.load(dev), operator())
    out.print(f"rewrapped {count} keys")


@app.command()
def status(dev: DevOption = False) -> None:
    """How many secrets are under which master key: one with none may be taken away."""
    from service import rotation

    for id, count in rotation.status(configured.load(dev)).items():
        out.print(f"master key {id}: {count} secrets")
