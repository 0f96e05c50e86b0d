"""sealane serve: the service, in production or for development."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import engine
from service.cli import configured
from service.cli.console import err

if TYPE_CHECKING:
    from service.settings import Settings


def serve(
    dev: Annotated[
        bool,
        typer.Option(
            "--dev", help="For development: SQLite and a master key in a local folder, keys and a token made."
        ),
    ] = False,
    host: Annotated[str | None, typer.Option(help="Address to listen on; SEALANE_HOST.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; SEALANE_PORT.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Worker processes, 0 for one per CPU; SEALANE_WORKERS.")
    ] = None,
) -> None:
    """Serve until SIGTERM. Settings come from SEALANE_* variables; run `sealane init` before the first start."""
    from service import server

    given = {"host": host, "port": port, "workers": workers}
    settings = configured.load(dev).model_copy(
        update={name: value for name, value in given.items() if value is not None}
    )
    if settings.dev:
        settings = _prepare(settings)
    server.run(settings)


def _prepare(settings: Settings) -> Settings:
    """Make what development needs, and say loudly that it is for that."""
    from pydantic import SecretStr

    from service.setup import DEV_KEY, DEV_MAC_KEY, prepare_dev

    folder = settings.dev_folder.absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whatever repository this folder is in, its keys are not to be committed.
    (folder / ".gitignore").write_text("*\n")
    token_file = folder / "token"
    if settings.dev_token is None and token_file.exists():
        settings = settings.model_copy(update={"dev_token": SecretStr(token_file.read_text().strip())})
    token = prepare_dev(settings)
    if token is not None:
        _write_private(token_file, token)
    info = engine.info()
    lines = (
        f"[bold yellow]FOR DEVELOPMENT ONLY: master key, keys and token lie in {folder}[/bold yellow]",
        f"URL    http://{settings.host}:{settings.port}   docs at /docs",
        f"token  {token or token_file.read_text().strip()}   (also in {_shown(token_file)})",
        f"keys   {DEV_KEY} (seals), {DEV_MAC_KEY} (makes MACs)",
        f"engine {info.backend}, kernel {info.kernel}",
    )
    # Lines of their own and no box, so that a token can be copied whole from a narrow terminal.
    err.rule(style="bold yellow")
    for line in lines:
        err.print(line)
    err.rule(style="bold yellow")
    return settings


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text + "\n")


def _shown(path: Path) -> str:
    """Relative to here where that is shorter to type."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
