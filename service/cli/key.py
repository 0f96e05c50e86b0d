"""sealane key: create, list, describe, rotate, delete, undelete."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from engine.protocol import DEFAULT_ALGORITHM
from service.cli.configured import DevOption
from service.cli.console import out, print_json
from service.cli.errors import Group
from service.cli.management import management
from service.formats import ALGORITHMS

if TYPE_CHECKING:
    from service.client import Key

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Keys: at the service that SEALANE_URL names (with SEALANE_TOKEN), else on the storage itself.",
)

Name = Annotated[str, typer.Argument(help="1 to 128 of a-z 0-9 . _ - that begin with a letter or digit.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def create(
    name: Name,
    type: Annotated[str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.")] = DEFAULT_ALGORITHM,
    json: Json = False,
    dev: DevOption = False,
) -> None:
    """Make a key with one version."""
    with management(dev) as at:
        _show(at.create_key(name, type), json)


@app.command("list")
def list_keys(
    prefix: Annotated[str, typer.Option(help="Only keys whose names begin with this.")] = "",
    json: Json = False,
    dev: DevOption = False,
) -> None:
    """List keys by name."""
    with management(dev) as at:
        keys = list(at.list_keys(prefix))
    if json:
        print_json(keys)
        return
    table = Table(
        Column("name", no_wrap=True), Column("type", no_wrap=True), "state", "version", "created", "to be destroyed"
    )
    for key in keys:
        table.add_row(
            key.name, key.type, key.state, str(key.current_version), _time(key.created_at), _time(key.delete_at)
        )
    out.print(table)


@app.command()
def describe(name: Name, json: Json = False, dev: DevOption = False) -> None:
    """Show a key's type, state and versions; never its material."""
    with management(dev) as at:
        _show(at.describe_key(name), json)


@app.command()
def rotate(name: Name, json: Json = False, dev: DevOption = False) -> None:
    """Add a version, which new seals and MACs use. What older ones made still opens and verifies."""
    with management(dev) as at:
        _show(at.rotate_key(name), json)


@app.command()
def delete(name: Name, json: Json = False, dev: DevOption = False) -> None:
    """Take a key out of use now and destroy it after SEALANE_DELETION_DELAY; `undelete` undoes it until then."""
    with management(dev) as at:
        _show(at.delete_key(name), json)


@app.command()
def undelete(name: Name, json: Json = False, dev: DevOption = False) -> None:
    """Put a key back into use whose deletion is not due yet."""
    with management(dev) as at:
        _show(at.undelete_key(name), json)


def _show(key: Key, json: bool) -> None:
    if json:
        print_json(key)
        return
    out.print(f"[bold]{key.name}[/bold]  {key.type}  {key.state}")
    if key.delete_at is not None:
        out.print(f"  to be destroyed {_time(key.delete_at)}")
    for version in key.versions:
        current = "  (current)" if version.version == key.current_version else ""
        out.print(f"  version {version.version}  made {_time(version.created_at)}{current}")


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
