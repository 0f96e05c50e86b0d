"""Every test that needs storage runs on each of the kinds that there are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from storage_backends import PARAMETERS, Backend

from service.core import Core
from service.settings import Settings

Workers = Callable[..., AbstractAsyncContextManager[list[Core]]]


@pytest.fixture(scope="session", params=PARAMETERS)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    made: Backend = request.param(tmp_path_factory.mktemp("initialised"))
    yield made
    made.close()


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """`await until(condition, seconds)`: fails if that takes longer."""

    async def wait(condition: Callable[[], bool], seconds: float = 5) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    return wait


@pytest.fixture
def settings(backend: Backend, tmp_path: Path) -> Settings:
    """Of an installation that was initialised and is empty."""
    return backend.fresh(tmp_path)


@pytest.fixture
def workers(settings: Settings) -> Workers:
    """`async with workers(2) as (one, two)`: that many workers on one storage, each with its own memory."""

    @asynccontextmanager
    async def serving(count: int = 1, **changes: object) -> AsyncIterator[list[Core]]:
        cores = [Core.open(settings.model_copy(update=changes)) for _ in range(count)]
        try:
            for core in cores:
                await core.start()
            yield cores
        finally:
            for core in cores:
                await core.stop()

    return serving
