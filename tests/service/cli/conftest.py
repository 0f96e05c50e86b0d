"""The command run in this process, and a real server for commands and clients to talk to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import Run, Server
from typer.testing import CliRunner, Result

from service.bench.servers import sealane
from service.cli import app


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("SEALANE_") and name not in ("SEALANE_ENGINE",):
            monkeypatch.delenv(name)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `sealane` with these arguments in an empty folder, for an installation that is to be made there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEALANE_DATABASE_URL", f"sqlite:///{tmp_path}/data/sealane.db")
    monkeypatch.setenv("SEALANE_MASTER_KEY_FILE", f"{tmp_path}/secret/master.key")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), prog_name="sealane")

    return run


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with sealane(tmp_path_factory.mktemp("server"), workers=1) as (url, token):
        yield Server(url, token)
