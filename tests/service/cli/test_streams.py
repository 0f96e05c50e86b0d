"""sealane seal, open and mac as programs: files, pipes, terminals, signals, and what they leave behind."""

from __future__ import annotations

import os
import pty
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Server

MESSAGE = random.Random("command").randbytes(5_000_000)
SEALANE = [sys.executable, "-m", "service.cli"]
#: A shell's background jobs, and what they start, ignore SIGINT; whoever runs these tests may be one.
INTERRUPTIBLE = [
    sys.executable, "-c",
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])",
    *SEALANE,
]  # fmt: skip
Program = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def environment(server: Server) -> dict[str, str]:
    return os.environ | {"SEALANE_URL": server.url, "SEALANE_TOKEN": server.token}


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Program:
    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*SEALANE, *arguments], env=environment, cwd=tmp_path, capture_output=True, check=False, **options
        )

    (tmp_path / "big").write_bytes(MESSAGE)
    return run


def test_pipes(program: Program, environment: dict[str, str], tmp_path: Path) -> None:
    line = f"{shlex.join([*SEALANE, 'seal'])} < big | {shlex.join([*SEALANE, 'open'])} > copy"
    subprocess.run(line, shell=True, check=True, env=environment, cwd=tmp_path)
    assert (tmp_path / "copy").read_bytes() == MESSAGE


def test_files(program: Program, tmp_path: Path) -> None:
    assert program("seal", "big", "-o", "sealed", "--aad", "order 66").returncode == 0
    sealed = (tmp_path / "sealed").read_bytes()
    assert sealed[:2] == b"\2\1"
    assert program("open", "sealed", "-o", "copy", "--aad", "order 66").returncode == 0
    assert (tmp_path / "copy").read_bytes() == MESSAGE
    assert program("open", "-", "--aad", "order 66", input=sealed).stdout == MESSAGE
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "link").symlink_to("old")
    assert program("open", "sealed", "-o", "link", "--aad", "order 66").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "old").read_bytes() == MESSAGE
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o640
    assert program("open", "sealed", "-o", "/dev/null", "--aad", "order 66").returncode == 0
    assert Path("/dev/null").is_char_device()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big", "copy", "link", "old", "sealed"]


@pytest.mark.parametrize("cut", [1, 2_000_000])
@pytest.mark.parametrize("file_system", ["with nameless files", "without"])
def test_nothing_is_left_of_what_does_not_open(program: Program, tmp_path: Path, cut: int, file_system: str) -> None:
    assert program("seal", "big", "-o", "sealed").returncode == 0
    (tmp_path / "cut").write_bytes((tmp_path / "sealed").read_bytes()[:-cut])
    (tmp_path / "kept").write_bytes(b"old")
    if file_system == "without":
        # What Python is where there are none.
        code = "import os; del os.O_TMPFILE; from service.cli import app; app()"
        runs = [[sys.executable, "-c", code, "open", "cut", "-o", name] for name in ("kept", "new")]
        done = [subprocess.run(run, cwd=tmp_path, env=os.environ | _env(program), capture_output=True) for run in runs]
        whole = [sys.executable, "-c", code, "open", "sealed", "-o", "whole"]
        assert subprocess.run(whole, cwd=tmp_path, env=os.environ | _env(program), check=False).returncode == 0
        assert (tmp_path / "whole").read_bytes() == MESSAGE
        assert (tmp_path / "whole").stat().st_mode == (tmp_path / "big").stat().st_mode
        (tmp_path / "whole").unlink()
    else:
        done = [program("open", "cut", "-o", name) for name in ("kept", "new")]
    for one in done:
        assert one.returncode == 1
        assert b"Traceback" not in one.stderr
    assert (tmp_path / "kept").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big", "cut", "kept", "sealed"]
    piped = program("open", "cut")
    assert (piped.returncode, piped.stdout) == (1, b"")


def _env(program: Program) -> dict[str, str]:
    found: dict[str, str] = program.__closure__[0].cell_contents  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_what_was_interrupted(
    environment: dict[str, str], tmp_path: Path, how: signal.Signals
) -> None:
    command = [*INTERRUPTIBLE, "seal", "-o", "sealed"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdin is not None
        run.stdin.write(MESSAGE[:1_000_000])  # more than the pipe holds, so that it is reading
        run.send_signal(how)
        run.wait(30)
    assert run.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_errors_are_one_line(program: Program, tmp_path: Path) -> None:
    for arguments, code, text in (
        (("seal", "no-such-file"), 1, "No such file"),
        (("seal", "big", "-o", "no/such/folder"), 1, "No such file"),
        (("seal", "big", "-o", ".", "-k", "demo"), 1, "directory"),
        (("seal", "big", "-k", "no-such-key", "-o", "x"), 1, "no such key"),
        (("open", "big"), 2, "sealane"),
        (("mac", "big", "--verify", "not base64"), 2, "base64"),
        (("mac", "big", "--resume", "nosuchupload"), 1, "no such upload"),
    ):
        done = program(*arguments)
        assert done.returncode == code, (arguments, done)
        assert done.stderr.decode().count("\n") == 1, done.stderr
        assert text.lower() in done.stderr.decode().lower()
        assert done.stdout == b""
    assert [path.name for path in tmp_path.iterdir()] == ["big"]


def test_macs(program: Program) -> None:
    made = program("mac", "big").stdout.decode().strip()
    assert len(b64decode(made)) == 48
    assert program("mac", "--verify", made, input=MESSAGE).returncode == 0
    wrong = program("mac", "--verify", made, input=MESSAGE + b"!")
    assert (wrong.returncode, wrong.stdout) == (1, b"")
    assert b"the MAC is wrong" in wrong.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_mac_goes_on(
    program: Program, environment: dict[str, str], tmp_path: Path, how: signal.Signals
) -> None:
    large = MESSAGE * 8
    with subprocess.Popen(
        [*INTERRUPTIBLE, "mac"], env=environment, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:  # fmt: skip
        assert run.stdin is not None
        assert run.stderr is not None
        run.stdin.write(large[:20_000_000])
        run.stdin.flush()
        time.sleep(1)
        run.send_signal(how)
        said = run.stderr.read().decode()
        run.wait(30)
    assert run.returncode != 0
    found = re.search(r"to go on: sealane (mac) --resume (\S+)", said)
    assert found, said
    went_on = program("mac", "--resume", found[2], input=large)
    assert went_on.returncode == 0, went_on.stderr
    assert program("mac", "--verify", went_on.stdout.decode().strip(), input=large).returncode == 0


def on_a_terminal(command: list[str], environment: dict[str, str], folder: Path, **streams: Any) -> tuple[int, str]:
    """Exit code, and what a terminal as standard error, and output if not told otherwise, showed."""
    controller, terminal = pty.openpty()
    streams = {"stdout": terminal} | streams
    with subprocess.Popen(
        command, env=environment | {"TERM": "xterm", "COLUMNS": "100"}, cwd=folder, stderr=terminal, **streams
    ) as run:
        os.close(terminal)
        shown = b""
        try:
            while data := os.read(controller, 65536):
                shown += data
        except OSError:  # the other end is closed
            pass
        os.close(controller)
    return run.returncode, shown.decode()


def test_terminals(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(MESSAGE)
    code, shown = on_a_terminal([*SEALANE, "seal", "big"], environment, tmp_path)
    assert code == 2
    assert "nothing for a terminal" in shown
    code, shown = on_a_terminal([*SEALANE, "seal", "big", "-o", "sealed"], environment, tmp_path)
    assert code == 0
    assert "sealing" in shown
    assert "MiB" in shown
    code, shown = on_a_terminal([*SEALANE, "open", "-q", "sealed", "-o", "copy"], environment, tmp_path)
    assert (code, shown) == (0, "")
    assert (tmp_path / "copy").read_bytes() == MESSAGE
