"""A server for the tests that only ask, and what HTTP tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# For http_harness, whichever tests are collected.
sys.path.insert(0, str(Path(__file__).parents[1] / "http"))

from http_harness import Server, running_server


@pytest.fixture(scope="session", params=["fused", "stock"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("streams")
    fused = request.param == "fused"
    with running_server(folder, fused_writes=fused, audit_file=folder / "audit", body_timeout=5) as running:
        yield running
