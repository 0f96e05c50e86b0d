"""sealane token: create, list, revoke."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from service.cli.configured import DevOption
from service.cli.console import USAGE, err, fail, out, print_json
from service.cli.errors import Group
from service.cli.management import management

if TYPE_CHECKING:
    from service.client import Grant

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Tokens: at the service that SEALANE_URL names (with SEALANE_TOKEN), else on the storage itself.",
)

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
ACTIONS = "create, delete, engine, list, mac, open, rotate, seal, tokens, verify"


def expiry(text: str) -> datetime:
    """`90s`, `15m`, `12h` or `30d` from now, or an ISO 8601 time; without an offset that is UTC. ValueError."""
    if found := re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text):
        return datetime.now(UTC) + timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the token is for, for people.")],
    grant: Annotated[
        list[str],
        typer.Option(
            help=f"ACTIONS:KEYS, such as seal,open:orders-*; may be given again. Actions: {ACTIONS}, or * for all. "
            "Without :KEYS it is for every key."
        ),
    ],
    expires: Annotated[str, typer.Option(help="30d, 12h, 15m, 90s or an ISO 8601 time; never if not given.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dev: DevOption = False,
) -> None:
    """Make a token. It goes to standard output, this once; the service keeps only its hash."""
    try:
        expires_at = expiry(expires) if expires else None
    except (ValueError, OverflowError):
        fail("--expires wants 30d, 12h, 15m, 90s or an ISO 8601 time", USAGE)
    grants = [_grant(text) for text in grant]
    with management(dev) as at:
        made = at.create_token(name, grants, expires_at)
    if json:
        print_json(made)
        return
    until = f"until {_time(made.expires_at)}" if made.expires_at else "without expiry"
    err.print(f"token {made.id} for {made.name!r}, {until}; it can't be shown again:", markup=False)
    print(made.token)


@app.command("list")
def list_tokens(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, dev: DevOption = False
) -> None:
    """List what is known of tokens, the revoked and expired among them; never the tokens."""
    with management(dev) as at:
        tokens = at.list_tokens()
    if json:
        print_json(tokens)
        return
    table = Table(Column("id", no_wrap=True), "name", "grants", "created", "expires", "revoked")
    for token in tokens:
        grants = "\n".join(f"{','.join(grant.actions)}:{grant.keys}" for grant in token.grants)
        moments = (_time(token.created_at), _time(token.expires_at), _time(token.revoked_at))
        table.add_row(token.id, token.name, grants, *moments)
    out.print(table)


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(help="The id that `sealane token list` shows.")], dev: DevOption = False
) -> None:
    """Refuse a token from now on; on every worker within a second."""
    with management(dev) as at:
        at.revoke_token(token_id)
    err.print(f"token {token_id} is revoked", markup=False)


def _grant(text: str) -> Grant:
    """The grant as the service reads it; Malformed says what was wanted."""
    from service import access
    from service.client import Grant

    parsed = access.Grant.parse(text)
    return Grant(sorted(parsed.actions), parsed.pattern)


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"
