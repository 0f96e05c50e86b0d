"""Health, metrics, failures of our own, and the end of a worker."""

from __future__ import annotations

import io
import json
import logging
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_harness import AUTH, OCTETS, App, Server, ask, read_reply, running_app, running_server, settings_in
from prometheus_client.parser import text_string_to_metric_families
from storage_backends import Backend
from test_messages import problem

from service import logs
from service.errors import SealaneError
from service.problems import KINDS
from service.protocol import exchange_fits
from service.server import keep_memory
from service.telemetry import OK, Metrics


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_error_of_the_domain_is_a_kind_of_problem() -> None:
    def below(kind: type[SealaneError]) -> Iterator[type[SealaneError]]:
        for child in kind.__subclasses__():
            if "slug" in vars(child):  # the others gather kinds, and are never raised themselves
                yield child
            yield from below(child)

    # What is raised before a server listens is told to the operator, not to a client.
    of_setup = {"setup", "master-key"}
    assert {kind.slug for kind in below(SealaneError)} - of_setup <= set(KINDS)


def test_health(app: App) -> None:
    assert app.get("/livez", headers={}).json() == {"status": "ok", "checks": {}}
    assert app.get("/readyz", headers={}).json() == {"status": "ok", "checks": {"engine": "ok", "storage": "ok"}}
    engine = app.get("/v1/engine").json()
    assert engine["kernel"] in (*engine["kernels"], engine["backend"])
    assert engine["selftest"][engine["backend"]] == "ok"


def test_readiness_fails_while_draining_and_calls_are_served(tmp_path: Path) -> None:
    with running_app(settings_in(tmp_path)) as app:
        app.app.runtime.drain()
        answer = app.get("/readyz")
        problem(answer, 503, "draining")
        assert answer.headers["retry-after"]
        assert app.get("/livez").status_code == 200
        assert app.post("/v1/keys/demo/seal", content=b"", headers=OCTETS).status_code == 200


def test_a_lost_database_degrades(tmp_path: Path, backend: Backend) -> None:
    settings = settings_in(tmp_path, max_staleness=3, poll_interval=0.1)
    with running_app(settings) as app:
        message = app.post("/v1/keys/demo/seal", content=b"x", headers=OCTETS).content
        backend.lose(settings)
        end = time.monotonic() + 10
        while app.get("/readyz").json()["status"] == "ok" and time.monotonic() < end:
            time.sleep(0.05)
        assert app.get("/readyz").json()["status"] == "degraded"
        assert app.post("/v1/keys/demo/open", content=message, headers=OCTETS).content == b"x"
        assert samples(app.get("/metrics").text)["sealane_degraded",] == 1
        problem(app.post("/v1/keys/while-lost"), 503, "storage-unavailable")
        while app.get("/readyz").status_code == 200 and time.monotonic() < end:
            time.sleep(0.05)
        problem(app.get("/readyz"), 503, "not-ready")
        problem(app.post("/v1/keys/demo/open", content=message, headers=OCTETS), 503, "storage-unavailable")
        backend.restore(settings)


def test_calls_are_refused_when_they_can_not_be_recorded(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with running_app(settings_in(tmp_path, audit_file=audit)) as app:
        assert app.post("/v1/keys/demo/seal", content=b"secret", headers=OCTETS).status_code == 200
        assert app.post("/v1/keys/demo/open", content=b"no", headers=OCTETS).status_code == 400
        app.post("/v1/keys/demo/seal", json={"items": [{"plaintext": ""}, {"plaintext": 5}]})
        records = [json.loads(line) for line in audit.read_text().splitlines()]
        assert [(record["action"], record["key"], record["outcome"], record["bytes_in"]) for record in records[:2]] == [
            ("seal", "demo", "ok", 6),
            ("open", "demo", "malformed", 2),
        ]
        assert (records[2]["items"], records[2]["failed"]) == (2, 1)
        assert "secret" not in audit.read_text()
        app.app.runtime.audit.close()
        audit.unlink()
        audit.mkdir()
        for headers in (OCTETS, {**AUTH, "content-type": "application/json"}):
            answer = app.post("/v1/keys/demo/seal", content=b"", headers=headers)
            problem(answer, 503, "audit-unavailable")


def test_a_failure_of_our_own_says_nothing(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers)
    monkeypatch.setattr(root, "level", root.level)
    logs.configure("debug", stream)

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("canary-in-a-message")

    key = app.app.runtime.keyring
    monkeypatch.setattr(type(key), "list", fail)
    answer = app.get("/v1/keys")
    assert problem(answer, 500, "internal")["detail"] == "The service failed"
    seal = app.app._calls["seal"]
    monkeypatch.setattr(type(seal), "_wants_raw", fail)
    monkeypatch.setattr(type(app.app._calls["mac"]), "raw", fail)
    answers = [answer, app.post("/v1/keys/demo-mac/mac", content=b"", headers=OCTETS)]
    for each in answers:
        problem(each, 500, "internal")
        assert "canary" not in each.text
    logging.getLogger("other").error("foreign", exc_info=RuntimeError("canary-in-a-message"))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    failed = [line for line in lines if line["event"] == "a call failed"]
    assert len(failed) == 2
    assert {line["error"] for line in failed} == {"RuntimeError"}
    assert failed[0]["request_id"] == answer.headers["x-request-id"]
    assert "canary" not in stream.getvalue()


def test_metrics_count_calls(app: App) -> None:
    def count(name: str, *labels: str) -> float:
        return samples(app.get("/metrics", headers={}).text).get((name, *sorted(labels)), 0)

    before = count("sealane_calls_total", "seal", "raw", "ok"), count("sealane_items_total", "seal", "malformed")
    for _ in range(3):
        app.post("/v1/keys/demo/seal", content=b"12345", headers=OCTETS)
    app.post("/v1/keys/demo/seal", json={"items": [{"plaintext": ""}, {"plaintext": 5}]})
    after = count("sealane_calls_total", "seal", "raw", "ok"), count("sealane_items_total", "seal", "malformed")
    assert (after[0] - before[0], after[1] - before[1]) == (3, 1)
    text = app.get("/metrics", headers={}).text
    assert samples(text)["sealane_calls_in_flight", "raw", "seal"] == 0
    openmetrics = app.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name


def test_counters_of_dead_workers_are_kept(tmp_path: Path) -> None:
    first = Metrics(tmp_path)
    started = first.call("seal", "raw").start()
    first.call("seal", "raw").start()
    first.call("seal", "raw").finish(OK, started, 10, 20)
    first.state("draining", 1)
    second = Metrics(tmp_path)
    seen = samples(second.exposition()[0].decode())
    assert seen["sealane_calls_in_flight", "raw", "seal"] == 1
    assert seen["sealane_workers",] == 2
    assert seen["sealane_draining",] == 1
    first.close()
    for worker in (second, Metrics(tmp_path)):
        seen = samples(worker.exposition()[0].decode())
        assert seen["sealane_calls_total", "ok", "raw", "seal"] == 1
        assert seen["sealane_received_bytes_total", "raw", "seal"] == 10
        # What it had in flight died with it, and so did its state.
        assert seen["sealane_calls_in_flight", "raw", "seal"] == 0
        assert seen["sealane_draining",] == 0
    assert len(list(tmp_path.glob("*.metrics"))) == 3
    (tmp_path / "worker-of-another-version.metrics").write_bytes(b"other" * 100)
    assert samples(second.exposition()[0].decode())["sealane_calls_total", "ok", "raw", "seal"] == 1


def test_several_workers_answer_with_one_sum(tmp_path: Path) -> None:
    with running_server(tmp_path, workers=2) as server:
        end = time.monotonic() + 20
        while samples(httpx.get(f"{server.url}/metrics").text)["sealane_workers",] < 2 and time.monotonic() < end:
            time.sleep(0.05)
        for _ in range(40):
            httpx.post(f"{server.url}/v1/keys/demo/seal", content=b"", headers=OCTETS)
        for _ in range(6):
            seen = samples(httpx.get(f"{server.url}/metrics").text)
            assert seen["sealane_calls_total", "ok", "raw", "seal"] == 40
            assert seen["sealane_workers",] == 2
        # A new key is known to both at once or within a second, without a failure to the caller.
        assert httpx.post(f"{server.url}/v1/keys/shared", headers=AUTH).status_code == 201
        for _ in range(20):
            assert httpx.post(f"{server.url}/v1/keys/shared/seal", content=b"", headers=OCTETS).status_code == 200
        assert httpx.post(f"{server.url}/v1/keys/shared/rotate", headers=AUTH).status_code == 200
        time.sleep(1)
        versions = set()
        for _ in range(20):
            sealed = httpx.post(f"{server.url}/v1/keys/shared/seal", content=b"", headers=OCTETS)
            versions.add(sealed.headers["sealane-key-version"])
        assert versions == {"2"}
        server.stop()
    assert "Traceback" not in server.log()


def test_sigterm_lets_a_call_in_flight_finish(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        connection = server.connect()
        request = ask("POST", "/v1/keys/demo/seal", b"x" * 100, "content-type: application/octet-stream")
        connection.sendall(request[:-50])
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        connection.sendall(request[-50:])
        reply, _ = read_reply(connection)
        assert (reply.status, len(reply.body)) == (200, 148)
        assert reply.headers["connection"] == "close"
        assert server.process.wait(10) in (0, -signal.SIGTERM)


def test_what_keeps_a_server_from_starting_is_said_once(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    (tmp_path / "master.key").write_bytes(bytes(32))
    (tmp_path / "master.key").chmod(0o600)
    from service.server import run

    with pytest.raises(SealaneError, match="wrong one"):
        run(settings)


def test_fused_writes_fit_this_uvicorn() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(exchange_fits()))
    thread.start()
    thread.join()
    assert found == [True]


def test_fused_writes_are_off_for_a_uvicorn_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uvicorn.__version__", "99.1.0")
    assert exchange_fits() is False


def test_malloc_takes_our_thresholds() -> None:
    import platform

    if platform.libc_ver()[0] != "glibc":
        pytest.skip("another malloc than glibc's")
    assert keep_memory()


def test_without_httptools_and_uvloop(tmp_path: Path) -> None:
    """As on machines where neither installs: uvicorn's protocol in pure Python on asyncio's own loop."""
    (tmp_path / "httptools.py").write_text("raise ImportError")
    (tmp_path / "uvloop.py").write_text("raise ImportError")
    import os

    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        with running_server(tmp_path, header_timeout=1, body_timeout=1, max_message_bytes=2**20) as server:
            _exercise_h11(server)


def _exercise_h11(server: Server) -> None:
    sealed = httpx.post(f"{server.url}/v1/keys/demo/seal", content=b"x", headers=OCTETS)
    assert sealed.status_code == 200
    assert httpx.post(f"{server.url}/v1/keys/demo/open", content=sealed.content, headers=OCTETS).content == b"x"
    assert httpx.post(f"{server.url}/v1/keys/demo/seal", content=bytes(2**21), headers=OCTETS).status_code == 413
    for data, status in (
        (b"GARBAGE\r\n\r\n", 400),
        (ask("POST", "/v1/keys/demo/seal", b"", "content-type: application/octet-stream", "content-length: 9"), 408),
    ):
        with server.connect() as connection:
            connection.sendall(data)
            reply, _ = read_reply(connection)
            assert reply.status == status
            assert reply.headers["content-type"] == "application/problem+json"
    with server.connect() as connection:
        assert connection.recv(1) == b""
