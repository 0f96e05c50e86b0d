"""An application in this process, and a real server in another, each on a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from http_harness import App, Server, running_app, running_server, settings_in


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with running_app(settings_in(tmp_path_factory.mktemp("app"))) as running:
        yield running


@pytest.fixture(scope="session", params=["fused", "stock"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with small limits, with and without fused writes."""
    fused = request.param == "fused"
    with running_server(
        tmp_path_factory.mktemp("server"), fused_writes=fused, body_timeout=1, header_timeout=1,
        max_message_bytes=2**20,
    ) as running:  # fmt: skip
        yield running
