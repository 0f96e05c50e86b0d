"""Servers under measurement are awaited, and nothing of theirs is left running."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from service.bench.processes import ServerFailed, free_port, server

# A wrapper whose child does the serving, as `bao` from PyPI is one.
_WRAPPER = (
    "import os, subprocess, sys; child = subprocess.Popen([sys.executable, '-m', 'http.server', sys.argv[1],"
    " '--bind', '127.0.0.1']); open(sys.argv[2], 'w').write(str(child.pid)); child.wait()"
)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_children_of_a_wrapper_end_too(tmp_path: Path) -> None:
    port, pid_file = free_port(), tmp_path / "pid"
    command = [sys.executable, "-c", _WRAPPER, str(port), str(pid_file)]
    with server("it", command, f"http://127.0.0.1:{port}", tmp_path / "log"):
        child = int(pid_file.read_text())
        assert _is_running(child)
    deadline = time.monotonic() + 5
    while _is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(child)


def test_a_server_that_exits_is_named_with_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no port')"]
    with (
        pytest.raises(ServerFailed, match=r"thing exited with 1[^$]*no port"),
        server("thing", command, f"http://127.0.0.1:{free_port()}", tmp_path / "log"),
    ):
        pytest.fail("it never answered")


def test_servers_get_the_given_environment(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "marker").touch()
    script = (
        "import os, runpy, sys; os.chdir(os.environ['WHERE']); runpy.run_module('http.server', run_name='__main__')"
    )
    command = [sys.executable, "-c", script, str(port), "--bind", "127.0.0.1"]
    log = tmp_path / "log"
    with server("it", command, f"http://127.0.0.1:{port}/marker", log, {"WHERE": str(tmp_path)}):
        assert "WHERE" not in os.environ
