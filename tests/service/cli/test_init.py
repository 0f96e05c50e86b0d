"""`sealane init` makes an installation once, and says what it found."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cli_harness import Run

from service.access import ACTIONS
from service.cli.token import ACTIONS as LISTED


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_makes_key_database_and_first_token(run: Run, tmp_path: Path) -> None:
    result = run("init")
    assert result.exit_code == 0, result.output
    key = tmp_path / "secret" / "master.key"
    assert len(key.read_bytes()) == 32
    assert _mode(key) == 0o600
    assert _mode(tmp_path / "data" / "sealane.db") == 0o600
    token = result.stdout.strip()
    assert token.startswith("sealane_")
    assert "keep a copy" in result.stderr
    assert token not in result.stderr
    assert token.encode() not in (tmp_path / "data" / "sealane.db").read_bytes()


def test_again_changes_nothing(run: Run, tmp_path: Path) -> None:
    run("init")
    key = (tmp_path / "secret" / "master.key").read_bytes()
    again = run("init")
    assert again.exit_code == 0
    assert again.stdout == ""
    assert "already" in again.stderr
    assert (tmp_path / "secret" / "master.key").read_bytes() == key


def test_without_token(run: Run) -> None:
    result = run("init", "--no-token")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "[]" in run("token", "list", "--json").stdout


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused_with_the_command_that_mends_it(
    run: Run, tmp_path: Path, mode: int
) -> None:
    run("init")
    key = tmp_path / "secret" / "master.key"
    key.chmod(mode)
    result = run("key", "list")
    assert result.exit_code == 78
    assert f"chmod 600 {key}" in result.stderr
    key.chmod(0o600)
    assert run("key", "list").exit_code == 0


def test_the_wrong_key_is_named_as_such(run: Run, tmp_path: Path) -> None:
    run("init")
    (tmp_path / "secret" / "master.key").write_bytes(os.urandom(32))
    result = run("key", "list")
    assert result.exit_code == 78
    assert "wrong" in result.stderr


@pytest.mark.parametrize("command", [("key", "list"), ("token", "list"), ("key", "create", "orders")])
def test_before_init_commands_say_what_to_run(run: Run, command: tuple[str, ...]) -> None:
    result = run(*command)
    assert result.exit_code != 0
    assert "sealane init" in result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1


def test_a_bad_setting_is_named_without_its_value(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALANE_PORT", "secret-value")
    result = run("init")
    assert result.exit_code == 78
    assert "SEALANE_PORT" in result.stderr
    assert "secret-value" not in result.output


def test_help_lists_the_actions_that_there_are() -> None:
    assert set(LISTED.split(", ")) == ACTIONS
