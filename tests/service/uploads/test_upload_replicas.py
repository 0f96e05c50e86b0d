"""Two replicas of two workers each on one storage: what one does is in force on all within a second."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from replicas import KEY, Replica, furnish, replicas
from storage_backends import Backend
from upload_scene import DATA, Scene

from service.settings import Settings

OCTETS = {"content-type": "application/octet-stream"}


def _fresh(server: Replica, token: str, method: str, path: str, **more: object) -> httpx.Response:
    """By a connection of its own, so that any worker may get it."""
    headers = {"authorization": f"Bearer {token}", **more.pop("headers", {})}  # type: ignore[dict-item]
    return httpx.request(method, server.url + path, headers=headers, timeout=20, **more)  # type: ignore[arg-type]


def _everywhere(servers: list[Replica], holds: Callable[[Replica], bool]) -> float:
    """Seconds until it holds in twelve calls in a row at each replica, which reach all of its workers."""
    begun = time.monotonic()
    while not all(holds(server) for _ in range(12) for server in servers):
        assert time.monotonic() - begun < 10
    return time.monotonic() - begun


def test_changes_are_in_force_everywhere_within_a_second(settings: Settings, tmp_path: Path) -> None:
    token = furnish(settings)
    with replicas(settings, tmp_path, 2, workers=2) as servers:
        one = servers[0]
        took = {}
        assert _fresh(one, token, "POST", "/v1/keys/new").status_code == 201
        took["a new key"] = _everywhere(
            servers, lambda at: _fresh(at, token, "POST", "/v1/keys/new/seal", content=b"x", headers=OCTETS).is_success
        )
        rotated = time.monotonic()
        assert _fresh(one, token, "POST", "/v1/keys/new/rotate").status_code == 200
        while time.monotonic() < rotated + 1:
            time.sleep(0.01)
        for server in servers * 12:
            answer = _fresh(server, token, "POST", "/v1/keys/new/seal", content=b"x", headers=OCTETS)
            assert answer.headers["sealane-key-version"] == "2"
        made = _fresh(one, token, "POST", "/v1/tokens", json={"name": "t", "grants": [{"actions": ["seal"]}]}).json()
        for server in servers * 6:
            seal = _fresh(server, made["token"], "POST", "/v1/keys/new/seal", content=b"x", headers=OCTETS)
            assert seal.status_code == 200
        assert _fresh(one, token, "DELETE", f"/v1/tokens/{made['id']}").status_code == 204
        time.sleep(1)
        for server in servers * 12:
            seal = _fresh(server, made["token"], "POST", "/v1/keys/new/seal", content=b"x", headers=OCTETS)
            assert seal.status_code == 401


def test_an_upload_goes_on_at_the_other_replica_after_a_kill(settings: Settings, tmp_path: Path) -> None:
    token = furnish(settings)
    with replicas(settings, tmp_path, 2, workers=2, upload_checkpoint_bytes=4096) as servers:
        scene = Scene(settings, token, servers)
        location = scene.begin()
        connection = scene.socket(location, 0, len(DATA))
        connection.sendall(DATA[:200_000])
        scene.waits_for(location, 100_000)
        assert len(servers[0].workers()) >= 2
        servers[0].kill()
        connection.close()
        assert scene.ends_right(location, at=1) >= 100_000


def test_a_lost_database_is_said_and_mended(backend: Backend, settings: Settings, tmp_path: Path) -> None:
    token = furnish(settings)
    with replicas(settings, tmp_path, 1, workers=2, poll_interval=0.2) as (server,):
        assert _fresh(server, token, "POST", "/v1/keys/k").status_code == 201
        time.sleep(1)
        location = _fresh(server, token, "POST", f"/v1/keys/{KEY}/mac-streams").headers["location"]
        backend.lose(settings)
        try:
            # Both workers say so.
            _everywhere([server], lambda at: _fresh(at, token, "GET", "/readyz").json()["status"] == "degraded")
            assert "sealane_degraded 1.0" in _fresh(server, token, "GET", "/metrics").text
            for _ in range(8):
                assert _fresh(server, token, "GET", "/readyz").status_code == 200
                assert _fresh(server, token, "POST", "/v1/keys/k/seal", content=b"x", headers=OCTETS).is_success
            assert _fresh(server, token, "POST", "/v1/keys/other").status_code == 503
            assert _fresh(server, token, "HEAD", location).status_code == 503
        finally:
            backend.restore(settings)
        _everywhere([server], lambda at: _fresh(at, token, "GET", "/readyz").json()["status"] == "ok")
        deadline = time.monotonic() + 10
        while "sealane_degraded 0.0" not in _fresh(server, token, "GET", "/metrics").text:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert _fresh(server, token, "POST", "/v1/keys/other").status_code == 201
        assert _fresh(server, token, "HEAD", location).status_code == 204


def test_readiness_fails_for_a_while_before_listeners_close(settings: Settings, tmp_path: Path) -> None:
    token = furnish(settings)
    with replicas(settings, tmp_path, 1, readiness_delay=1.5) as (server,):
        server.terminate()
        begun = time.monotonic()
        statuses = []
        with contextlib.suppress(httpx.TransportError):
            while time.monotonic() < begun + 10:
                statuses.append(_fresh(server, token, "GET", "/readyz").status_code)
                if statuses[-1] == 503:
                    assert _fresh(server, token, "GET", "/v1/engine").status_code == 200
                time.sleep(0.05)
        assert statuses.count(503) > 3
        assert 1.4 < time.monotonic() - begun < 8


@pytest.mark.parametrize("seconds", [1])
def test_idle_connections_close_after_the_time_that_is_set(settings: Settings, tmp_path: Path, seconds: int) -> None:
    token = furnish(settings)
    with replicas(settings, tmp_path, 1, keep_alive_timeout=seconds) as (server,), server.client(token) as client:
        assert client.get("/v1/engine").status_code == 200
        pool = client._transport._pool  # type: ignore[attr-defined]
        begun = time.monotonic()
        while not pool.connections[0].has_expired():
            assert time.monotonic() < begun + 10
            time.sleep(0.05)
        assert time.monotonic() - begun > 0.8 * seconds
    assert os.path.exists(server.log_path)
