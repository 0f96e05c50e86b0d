"""Two replicas behind the balancer, on PostgreSQL, scraped by Prometheus: restarts lose nothing, deaths little."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from stack import OCTETS, Load, Stack, prometheus, running, until

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(tmp_path_factory.mktemp("stack")) as made:
        with made.client() as client:
            assert client.post("/v1/keys/load", json={}).status_code == 201
        for replica in made.replicas:  # it is in force on the other within a second; the load begins after that
            with made.client(replica.url) as client:
                until(lambda client=client: client.get("/v1/keys/load").status_code == 200, 5, "the key is everywhere")
        yield made


def test_what_one_replica_made_the_other_uses(stack: Stack) -> None:
    one, two = (stack.client(replica.url) for replica in stack.replicas)
    with one, two:
        assert one.post("/v1/keys/shared", json={}).status_code == 201
        sealed = one.post("/v1/keys/shared/seal", content=b"attack at dawn", headers=OCTETS).content
        assert two.post("/v1/keys/shared/open", content=sealed, headers=OCTETS).content == b"attack at dawn"
        assert two.post("/v1/keys/shared/rotate").status_code == 200
        until(
            lambda: one.post("/v1/keys/shared/seal", content=b"", headers=OCTETS).headers["sealane-key-version"] == "2",
            2, "the rotation is in force on the other replica",
        )  # fmt: skip
        assert one.post("/v1/keys/shared/open", content=sealed, headers=OCTETS).content == b"attack at dawn"


def test_streams_and_uploads_go_through_the_balancer(stack: Stack) -> None:
    data = os.urandom(5_000_000)
    with stack.client() as client:
        sealed = client.post("/v1/keys/load/seal-stream", content=data, headers=OCTETS)
        assert sealed.status_code == 200
        assert client.post("/v1/keys/load/open-stream", content=sealed.content, headers=OCTETS).content == data
        broken = bytes([sealed.content[0]]) + sealed.content[1:-1] + bytes([sealed.content[-1] ^ 1])
        assert client.post("/v1/keys/load/open-stream", content=broken, headers=OCTETS).status_code == 422
        assert client.post("/v1/keys/sums", json={"type": "poly1305-xchacha20"}).status_code == 201
        until(lambda: "sums" in client.get("/v1/keys").text, 2, "the key is everywhere")
        location = client.post("/v1/keys/sums/mac-streams").headers["location"]
        for begin, end in ((0, 2_000_000), (2_000_000, 3_500_000), (3_500_000, len(data))):
            answer = client.patch(location, content=data[begin:end], headers={
                "content-type": "application/partial-upload", "upload-offset": str(begin),
                "upload-complete": f"?{int(end == len(data))}",
            })  # fmt: skip
            assert answer.status_code == (200 if end == len(data) else 204), answer.text
        headers = {**OCTETS, "sealane-mac": answer.json()["mac"]}
        assert client.post("/v1/keys/sums/verify", content=data, headers=headers).json()["valid"] is True


def test_a_rolling_restart_loses_no_request(stack: Stack) -> None:
    with Load(stack) as load:
        load.another(20)
        for replica in stack.replicas:
            assert replica.end(signal.SIGTERM) in (0, -signal.SIGTERM)
            load.another(20)
            replica.start()
            load.another(20)
    assert load.failures == []
    assert load.done >= 100


def test_a_death_loses_at_most_what_was_in_flight(stack: Stack) -> None:
    with Load(stack) as load:
        load.another(20)
        stack.replicas[0].end(signal.SIGKILL)
        load.another(40)
        stack.replicas[0].start()
        load.another(20)
    assert len(load.failures) <= load.clients, load.failures


def test_prometheus_sees_both(stack: Stack) -> None:
    with prometheus(stack.folder, stack.replicas) as client:

        def value(query: str) -> float:
            found = client.get("/api/v1/query", params={"query": query}).json()["data"]["result"]
            return float(found[0]["value"][1]) if found else -1

        until(lambda: value('sum(up{job="sealane"})') == 2, 30, "both are up")
        until(lambda: value('sum(sealane_calls_total{operation="seal",outcome="ok"})') > 0, 10, "calls are counted")
        assert value("max(sealane_degraded)") == 0
        rules = client.get("/api/v1/rules").json()["data"]["groups"][0]["rules"]
        assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
        with stack.client() as through:
            assert through.get("/metrics").status_code == 404  # not through the balancer
