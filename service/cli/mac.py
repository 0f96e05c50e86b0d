"""sealane mac: the MAC of a file or pipe of any length, over an upload that survives broken connections."""

from __future__ import annotations

import binascii
import shlex
import signal
import sys
from base64 import b64decode, b64encode
from functools import partial
from typing import Annotated, NoReturn

import typer

from service.cli.connection import connected
from service.cli.console import FAILED, UNAVAILABLE, USAGE, err, fail, out
from service.cli.files import InputArgument, QuietOption, progress, source


def mac(
    file: InputArgument = None,
    key: Annotated[str, typer.Option("--key", "-k", envvar="SEALANE_MAC_KEY", help="The MAC key's name.")] = "demo-mac",
    verify: Annotated[str | None, typer.Option(help="Verify this MAC (base64); exit code 1 if it is wrong.")] = None,
    resume: Annotated[
        str | None, typer.Option(help="Go on with the upload of this ID, which an interrupted command named.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds for which to try again while nothing gets through.")
    ] = 60.0,
    quiet: QuietOption = False,
) -> None:
    """Make the MAC of a file or standard input, and print it in base64; or verify one.

    It goes on by itself after a broken connection. When it is interrupted it names its upload: `--resume` with the same
    data goes on there.
    """
    from service.client.data import size_of

    expected = None if verify is None else _decoded(verify)
    upload_id = resume

    def started(new_id: str) -> None:
        nonlocal upload_id
        upload_id = new_id

    # A SIGTERM would otherwise end it without a word of where to go on.
    before = signal.signal(signal.SIGTERM, _end)
    try:
        with connected() as client, source(file) as data, progress("MAC", size_of(data), quiet) as advance:
            call = partial(client.mac_upload, key) if expected is None else partial(client.verify_upload, key, expected)
            result = call(data, resume=resume, started=started, progress=advance, patience=patience)
    except BaseException as error:
        lost = isinstance(error, typer.Exit) and error.exit_code != UNAVAILABLE
        if upload_id is not None and not lost:
            _say_how_to_go_on(upload_id)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    if not isinstance(result, bool):
        out.out(b64encode(result.mac).decode(), highlight=False)
    elif not result:
        fail("the MAC is wrong", FAILED)


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _say_how_to_go_on(upload_id: str) -> None:
    # What was typed, but for an earlier --resume and its value.
    words = sys.argv[1:]
    for place, word in enumerate(words):
        if word == "--resume":
            del words[place : place + 2]
            break
        if word.startswith("--resume="):
            del words[place]
            break
    err.print(f"sealane: to go on: sealane {shlex.join(words)} --resume {upload_id}", markup=False)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        fail("--verify wants a MAC in base64, as `sealane mac` prints it", USAGE)
