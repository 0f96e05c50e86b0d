"""sealane init: master key, database and first token of a production installation."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli import configured
from service.cli.console import err


def init(
    token: Annotated[bool, typer.Option(help="Make a token that may do everything, for a new database.")] = True,
) -> None:
    """Make the master key file (mode 0600), the database's schema, and a first token that may do everything.

    Where they go is set by SEALANE_MASTER_KEY_FILE and SEALANE_DATABASE_URL. Run again, it upgrades the schema and
    changes nothing else. The token goes to standard output, this once.
    """
    from service.access import ACTIONS
    from service.cli.storage import OnStorage
    from service.client import Grant
    from service.setup import initialise

    settings = configured.load()
    done = initialise(settings)
    key_file = settings.master_key_file
    if done.new_master_key:
        err.print(f"made the master key {key_file}; keep a copy apart: without it nothing sealed can be opened")
    else:
        err.print(f"the master key {key_file} was there already and is used")
    if not done.new_database:
        err.print(f"the database at {done.place} was there already; its schema is up to date")
        return
    err.print(f"made the database at {done.place}")
    if token:
        made = OnStorage(settings).create_token("admin", [Grant(sorted(ACTIONS))])
        err.print(f"token {made.id} may do everything; it can't be shown again:")
        print(made.token)
