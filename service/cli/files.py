"""Files and pipes of commands: input with a progress bar, and output that appears whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, cast

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from service.cli.console import FAILED, err, fail

InputArgument = Annotated[Path | None, typer.Argument(help="The file to read; standard input without, or with -.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


@contextmanager
def source(path: Path | None) -> Iterator[IO[bytes]]:
    """The file, or standard input."""
    if path is None or str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        fail(f"{path}: {error.strerror}", FAILED)
    with file:
        yield file


@contextmanager
def progress(words: str, size: int | None, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error if that is a terminal; call it with the number of bytes done."""
    if quiet or not err.is_terminal:
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(True), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bars:
        bar = bars.add_task(words, total=size)
        yield lambda done: bars.update(bar, completed=done)


class _Watched:
    """What the client asks of a file, telling how much of it was read."""

    def __init__(self, file: IO[bytes], advance: Callable[[int], None]) -> None:
        self._advance = advance
        self._read = getattr(file, "read1", file.read)
        self.fileno, self.tell, self.seek, self.seekable = file.fileno, file.tell, file.seek, file.seekable
        self._done = 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._read(size)
        self._done += len(data)
        self._advance(self._done)
        return data


def watched(file: IO[bytes], advance: Callable[[int], None]) -> IO[bytes]:
    """The file; `advance` is called with the number of bytes that were read of it."""
    return cast(IO[bytes], _Watched(file, advance))


@contextmanager
def destination(path: Path | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that has its name, in place of what had it, only when the block has ended well."""
    if path is None or str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with _replacing(path.resolve()) as file:
            yield file
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        fail(f"{path}: {error.strerror}", FAILED)


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    before = _status(path)
    if before is not None and not stat.S_ISREG(before.st_mode):
        # A device or a pipe is written to, never replaced.
        with path.open("wb") as file:
            yield file
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _nameless(path.parent, folder) as (file, give_name):
            yield file
            file.flush()
            if before is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            os.fsync(file.fileno())
            give_name(path.name)
            os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _nameless(parent: Path, folder: int) -> Iterator[tuple[IO[bytes], Callable[[str], None]]]:
    """A file without a name, of which nothing is left even after a kill -9, where the file system has such; else one
    with a name of its own that is removed. And how to give it its name at last."""
    try:
        descriptor = os.open(parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except (AttributeError, OSError):
        with _named(parent) as (file, name):
            yield file, lambda final: os.replace(name, final, src_dir_fd=folder, dst_dir_fd=folder)
        return

    def give_name(final: str) -> None:
        # A link never replaces; and given a folder Python calls linkat, which follows /proc's link to the file.
        name = _temporary(final)
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder)
        try:
            os.replace(name, final, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise

    with open(descriptor, "wb") as file:
        yield file, give_name


@contextmanager
def _named(parent: Path) -> Iterator[tuple[IO[bytes], str]]:
    descriptor, name = tempfile.mkstemp(prefix=".sealane-", dir=parent)
    try:
        with open(descriptor, "wb") as file:
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(descriptor, 0o666 & ~mask)
            yield file, Path(name).name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _temporary(name: str) -> str:
    return f".sealane-{secrets.token_hex(8)}"


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
