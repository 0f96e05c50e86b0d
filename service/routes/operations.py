"""Operations: liveness, readiness, metrics, and what the engine runs on."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

import engine
from service.access import Access
from service.problems import Problem
from service.routes.management import Caller, ManagementRoute
from service.routes.models import EngineInfo, Health
from service.runtime import Runtime

router = APIRouter(tags=["operations"])
engine_router = APIRouter(prefix="/v1", route_class=ManagementRoute, tags=["operations"])


@router.get("/livez", name="operations-live", summary="Is it alive?", response_model=Health)
async def livez() -> Response:
    """200 for as long as the worker answers at all."""
    return JSONResponse({"status": "ok", "checks": {}})


@router.get("/readyz", name="operations-ready", summary="Is it ready?", response_model=Health)
async def readyz(request: Request) -> Response:
    """200 if calls are served, with `degraded` while they are served from what was loaded before the storage was lost.

    503 while starting or draining, if the engine's self-test failed, or once what is loaded is too old to serve.
    """
    runtime: Runtime = request.app.runtime
    if runtime.draining:
        raise Problem("draining")
    checks = {"engine": _engine_fault() or "ok", "storage": "ok"}
    keyring = runtime.keyring
    degraded = keyring.degraded
    if degraded:
        checks["storage"] = keyring.fault or "the storage does not answer"
    ready = runtime.ready and checks["engine"] == "ok" and not _too_old(runtime)
    if not ready:
        raise Problem("not-ready", checks=checks)
    return JSONResponse({"status": "degraded" if degraded else "ok", "checks": checks})


@router.get("/metrics", name="operations-metrics", summary="Metrics for Prometheus", response_class=Response,
            responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}})  # fmt: skip
async def metrics(request: Request) -> Response:
    """The sum over all workers of this server."""
    runtime: Runtime = request.app.runtime
    await runtime.report()
    content, content_type = await asyncio.to_thread(runtime.metrics.exposition, request.headers.get("accept", ""))
    return Response(content, headers={"content-type": content_type})


@engine_router.get("/engine", name="engine", summary="What the engine runs on")
async def engine_info(caller: Caller) -> EngineInfo:
    """Backend and kernel that compute, what else this machine could use, and what the self-tests said."""
    Access.require(caller, "engine")
    info = engine.info()
    return EngineInfo(
        backend=info.backend,
        kernel=info.kernel,
        kernels=list(info.kernels),
        backends=list(info.backends),
        cpu_features=list(info.cpu_features),
        selftest=dict(info.selftest),
    )


def _engine_fault() -> str | None:
    """What the self-test says of what is in use; None if that passed."""
    info = engine.info()
    for name in (info.kernel, info.backend):
        if name in info.selftest:
            return None if info.selftest[name] == "ok" else "the self-test failed"
    return "no self-test was run"


def _too_old(runtime: Runtime) -> bool:
    return runtime.keyring.staleness_seconds > runtime.settings.max_staleness
