"""An application in this process, and a real server in another, each on a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from http_harness import App, Server, running_app, running_server, settings_in
from storage_backends import Backend, current


@pytest.fixture(autouse=True)
def _each_storage(backend: Backend) -> Iterator[None]:
    """All here runs on every kind of storage."""
    with current(backend):
        yield


@pytest.fixture(scope="session")
def app(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with current(backend):
        settings = settings_in(tmp_path_factory.mktemp("app"))
    with running_app(settings) as running:
        yield running


@pytest.fixture(scope="session", params=["fused", "stock"])
def server(
    request: pytest.FixtureRequest, backend: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with small limits, with and without fused writes."""
    fused = request.param == "fused"
    with ExitStack() as stack:
        with current(backend):
            running = stack.enter_context(running_server(
                tmp_path_factory.mktemp("server"), fused_writes=fused, body_timeout=1, header_timeout=1,
                max_message_bytes=2**20,
            ))  # fmt: skip
        yield running
