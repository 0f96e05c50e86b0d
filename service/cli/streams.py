"""sealane seal and sealane open: files and pipes of any length, in constant memory, through the service."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal

import typer

from service.cli.connection import connected
from service.cli.console import FAILED, USAGE, fail
from service.cli.files import InputArgument, QuietOption, destination, progress, source, watched

if TYPE_CHECKING:
    from service.client import Stream

KeyOption = Annotated[str, typer.Option("--key", "-k", envvar="SEALANE_KEY", help="The key's name.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The file to write, whole or not at all; standard output without, or with -."),
]
AadOption = Annotated[str, typer.Option(help="Text that is authenticated and not part of the stream.")]


def seal(
    file: InputArgument = None,
    output: OutputOption = None,
    key: KeyOption = "demo",
    aad: AadOption = "",
    quiet: QuietOption = False,
) -> None:
    """Seal a file or standard input as a sealed stream."""
    if (output is None or str(output) == "-") and sys.stdout.isatty():
        fail("a sealed stream is nothing for a terminal: redirect it, or name a file with -o", USAGE)
    with connected() as client, source(file) as data:
        _through(data, output, "sealing", quiet, lambda body: client.seal_stream(key, body, aad.encode()))


def open_(
    file: InputArgument = None,
    output: OutputOption = None,
    key: KeyOption = "demo",
    aad: AadOption = "",
    quiet: QuietOption = False,
) -> None:
    """Open a sealed stream from a file or standard input.

    Standard output gets nothing before all of the stream has verified. A file gets its name only then.
    """
    import httpx

    whole = output is None or str(output) == "-" or (output.exists() and not output.is_file())
    # A file without a name is released to nobody, so that the service need not keep the stream until its end.
    release: Literal["chunk"] | None = None if whole else "chunk"
    with connected() as client, source(file) as data:
        try:
            _through(
                data, output, "opening", quiet,
                lambda body: client.open_stream(key, body, aad.encode(), release=release),
            )  # fmt: skip
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if whole:
                raise
            fail(f"the stream does not verify to its end, or the connection broke: {output} is not written", FAILED)


def _through(
    data: IO[bytes], output: Path | None, words: str, quiet: bool, call: Callable[[IO[bytes]], Stream]
) -> None:
    from service.client.data import size_of

    with (
        progress(words, size_of(data), quiet) as advance,
        destination(output) as out,
        call(watched(data, advance)) as stream,
    ):
        for piece in stream:
            out.write(piece)
