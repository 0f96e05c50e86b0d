"""The application over HTTP, in this process, on each storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from replicas import furnish
from storage_backends import Backend

from service.app import create_app

Call = Callable[..., httpx.Response]


@pytest.fixture(scope="session")
def call(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Call]:
    """`call(method, path, headers=..., content=...)`, by a token that may do all unless another one is given."""
    folder = tmp_path_factory.mktemp("uploads")
    settings = backend.fresh(folder).model_copy(
        update={"upload_checkpoint_bytes": 1000, "audit_file": folder / "audit", "spool_folder": folder / "spool"}
    )
    token = furnish(settings)
    with asyncio.Runner() as runner:
        app = create_app(settings)
        life = app.router.lifespan_context(app)
        runner.run(life.__aenter__())

        async def ask(method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
            transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
            given = {"authorization": f"Bearer {token}", **(headers or {})}
            async with httpx.AsyncClient(transport=transport, base_url="http://sealane") as client:
                return await client.request(method, path, headers=given, **more)

        def call(method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
            return runner.run(ask(method, path, headers, **more))

        call.audit = folder / "audit"  # type: ignore[attr-defined]
        call.access = app.runtime.access  # type: ignore[attr-defined]
        yield call
        runner.run(life.__aexit__(None, None, None))
