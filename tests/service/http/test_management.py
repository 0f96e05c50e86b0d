"""Keys, tokens, and who may do what."""

from __future__ import annotations

import concurrent.futures
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from http_harness import AUTH, OCTETS, TOKEN, App
from test_messages import b64, problem


def test_a_key_from_creation_to_deletion(app: App) -> None:
    made = app.post("/v1/keys/life", json={"type": "chacha20-poly1305"})
    assert made.status_code == 201
    assert (made.json()["type"], made.json()["current_version"], made.json()["state"]) == (
        "chacha20-poly1305",
        1,
        "active",
    )
    problem(app.post("/v1/keys/life"), 409, "key-exists")
    assert app.get("/v1/keys/life").json() == made.json()
    assert app.post("/v1/keys/life/rotate").json()["current_version"] == 2
    assert [version["version"] for version in app.get("/v1/keys/life").json()["versions"]] == [1, 2]
    assert app.call("DELETE", "/v1/keys/life").json()["state"] == "pending-deletion"
    problem(app.post("/v1/keys/life/rotate"), 409, "key-deleted")
    assert app.post("/v1/keys/life/undelete").json()["state"] == "active"


def test_listing_in_pages(app: App) -> None:
    for index in range(5):
        app.post(f"/v1/keys/page-{index}")
    names: list[str] = []
    after = ""
    while True:
        page = app.get("/v1/keys", params={"prefix": "page-", "limit": 2, "after": after}).json()
        names += [key["name"] for key in page["keys"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert names == [f"page-{index}" for index in range(5)]
    only = app.token((["list"], "page-3"))
    assert [key["name"] for key in app.get("/v1/keys", headers=only).json()["keys"]] == ["page-3"]


@pytest.mark.parametrize(
    "name",
    ["A", "-a", ".a", "_a", "a..b", "a%20b", "%00", "a%00", "a" * 129, "%ff", "%e4", "ä", "a%0a", "a+b", "a,b", "a:b",
     "a;b", "a%25", "%2e%2e", "~", "a*"],
)  # fmt: skip
def test_key_names_that_can_not_be(app: App, name: str) -> None:
    members = problem(app.post(f"/v1/keys/{name}"), 400, "malformed")
    assert "wanted a key name" in members["detail"]
    problem(app.post(f"/v1/keys/{name}/seal", content=b"", headers=OCTETS), 404, "key-not-found")
    stranger = app.token((["seal", "create"], "*"))
    problem(app.post(f"/v1/keys/{name}/seal", content=b"", headers={**OCTETS, **stranger}), 403, "not-allowed")


@pytest.mark.parametrize(
    "path", ["/v1/keys/demo%2Fseal", "/v1/keys/a%2fb", "/v1/keys/demo%2F..%2Fdemo/seal", "/v1%2Fkeys"]
)
def test_an_escaped_slash_is_no_slash(app: App, path: str) -> None:
    for method in ("GET", "POST"):
        problem(app.call(method, path), 404, "not-found")


def test_percent_escapes_of_allowed_characters_are_those_characters(app: App) -> None:
    sealed = app.post("/v1/keys/%64em%6F/seal", content=b"x", headers=OCTETS).content
    assert app.post("/v1/keys/demo/open", content=sealed, headers=OCTETS).content == b"x"
    assert app.get("/v1/keys/%64emo").json()["name"] == "demo"


def test_two_creates_at_once(app: App) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: app.post("/v1/keys/raced").status_code, range(8)))
    assert sorted(statuses) == [201] + [409] * 7


def test_actions_and_patterns(app: App) -> None:
    app.post("/v1/keys/orders-1")
    seals = app.token((["seal"], "orders-*"))
    assert app.post("/v1/keys/orders-1/seal", content=b"", headers={**OCTETS, **seals}).status_code == 200
    calls: list[tuple[str, str]] = [
        ("POST", "/v1/keys/orders-1/open"), ("POST", "/v1/keys/demo/seal"), ("POST", "/v1/keys/orders-2/seal"),
        ("GET", "/v1/keys/orders-1"), ("GET", "/v1/keys/orders-2"), ("POST", "/v1/keys/orders-1"),
        ("POST", "/v1/keys/orders-1/rotate"), ("POST", "/v1/keys/orders-2/rotate"), ("DELETE", "/v1/keys/orders-1"),
        ("POST", "/v1/keys/orders-1/undelete"), ("GET", "/v1/tokens"), ("POST", "/v1/tokens"), ("GET", "/v1/engine"),
        ("DELETE", "/v1/tokens/x"),
    ]  # fmt: skip
    bodies = set()
    for method, path in calls:
        answer = app.call(method, path, headers={**OCTETS, **seals} if path.endswith(("seal", "open")) else seals,
                          **({"json": {"name": "x", "grants": [{"actions": ["seal"]}]}} if path == "/v1/tokens" and
                             method == "POST" else {}))  # fmt: skip
        problem(answer, 403, "not-allowed")
        bodies.add(answer.content)
    # A key that is not there answers just as one that is forbidden.
    assert len(bodies) == 1
    assert app.get("/v1/keys", headers=seals).json()["keys"] == []
    lists = app.token((["list", "rotate"], "orders-*"))
    problem(app.get("/v1/keys/orders-2", headers=lists), 404, "key-not-found")
    problem(app.post("/v1/keys/orders-2/rotate", headers=lists), 404, "key-not-found")


def test_a_token_from_creation_to_revocation(app: App) -> None:
    made = app.post("/v1/tokens", json={"name": "t", "grants": [{"actions": ["seal"], "keys": "demo"}]})
    assert made.status_code == 201
    token = made.json()["token"]
    headers = {**OCTETS, "authorization": f"Bearer {token}"}
    assert app.post("/v1/keys/demo/seal", content=b"", headers=headers).status_code == 200
    listed = app.get("/v1/tokens")
    assert token not in listed.text
    assert made.json()["id"] in [each["id"] for each in listed.json()["tokens"]]
    for _ in range(2):
        gone = app.call("DELETE", f"/v1/tokens/{made.json()['id']}")
        assert (gone.status_code, gone.content) == (204, b"")
    problem(app.post("/v1/keys/demo/seal", content=b"", headers=headers), 401, "not-authenticated")
    problem(app.call("DELETE", "/v1/tokens/unknown"), 404, "token-not-found")


def test_expiry(app: App) -> None:
    grants = [{"actions": ["seal"]}]
    in_a_moment = (datetime.now(UTC) + timedelta(seconds=0.5)).isoformat()
    made = app.post("/v1/tokens", json={"name": "t", "grants": grants, "expires_at": in_a_moment})
    assert made.status_code == 201, made.text
    import time

    time.sleep(0.6)
    headers = {**OCTETS, "authorization": f"Bearer {made.json()['token']}"}
    problem(app.post("/v1/keys/demo/seal", content=b"", headers=headers), 401, "not-authenticated")
    for more in (
        {"expires_at": "2001-01-01T00:00:00Z"}, {"expires_at": "2040-01-01T00:00:00"}, {"expires_at": "soon"},
        {"expires_in_seconds": 0}, {"expires_in_seconds": -1}, {"expires_in_seconds": 10**30},
        {"expires_in_seconds": "5"}, {"expires_in_seconds": 60, "expires_at": in_a_moment},
    ):  # fmt: skip
        problem(app.post("/v1/tokens", json={"name": "t", "grants": grants, **more}), 400, "malformed")


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
     f"Bearer  x {TOKEN}",
     "Bearer sealane_aaaaaaaaaaaaaaaa_" + "a" * 59, "Bearer " + "a" * 5000, b"Bearer \xff\xfe", f"Token {TOKEN}"],
)  # fmt: skip
def test_what_is_no_valid_token(app: App, authorization: Any) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    for method, path in (
        ("POST", "/v1/keys/demo/seal"),
        ("GET", "/v1/keys"),
        ("GET", "/v1/engine"),
        ("POST", "/v1/tokens"),
    ):
        answer = app.call(method, path, headers=headers)
        problem(answer, 401, "not-authenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400), (b"[]", 400), (b'{"type":"aes"}', 400), (b'{"type":5}', 400), (b'{"type":null}', 400),
        (b'{"type":"chacha20-poly1305","type":"chacha20-poly1305"}', 400), (b'{"kind":1}', 400), (b"[" * 50_000, 400),
        (b"\xff", 400), (b" " * 70_000, 413), (b'{"type":"\x00"}', 400),
    ],
)  # fmt: skip
def test_bodies_of_management_calls(app: App, body: bytes, status: int) -> None:
    answer = app.post("/v1/keys/never-made", content=body, headers={**AUTH, "content-type": "application/json"})
    problem(answer, status, "too-large" if status == 413 else "malformed")
    assert app.get("/v1/keys/never-made").status_code == 404


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json", ";"]
)
def test_media_types(app: App, kind: str) -> None:
    headers = {**AUTH, "content-type": kind} if kind else AUTH
    for path in ("/v1/keys/demo/seal", "/v1/keys/demo-mac/verify", "/v1/tokens"):
        members = problem(app.post(path, content=b"{}", headers=headers), 415, "unsupported-media-type")
        assert "application/json" in members["accepted"]
    encoded = {**OCTETS, "content-encoding": "gzip"}
    problem(app.post("/v1/keys/demo/seal", content=b"{}", headers=encoded), 415, "unsupported-media-type")
    for same in ("Application/Octet-Stream", "application/octet-stream; x=y", " application/octet-stream "):
        assert app.post("/v1/keys/demo/seal", content=b"", headers={**AUTH, "content-type": same}).status_code == 200


def test_methods(app: App) -> None:
    for path, allow in (
        ("/v1/keys/demo/seal", "POST, OPTIONS"), ("/v1/keys", "GET, HEAD, OPTIONS"), ("/livez", "GET, HEAD, OPTIONS"),
        ("/v1/keys/demo", "GET, HEAD, POST, DELETE, OPTIONS"), ("/v1/tokens", "GET, HEAD, POST, OPTIONS"),
        ("/v1/keys/demo/seal-stream", "POST, OPTIONS"), ("/v1/keys/demo/mac-streams", "POST, OPTIONS"),
        ("/v1/mac-streams/x", "HEAD, PATCH, DELETE, OPTIONS"),
    ):  # fmt: skip
        assert app.call("OPTIONS", path).headers["allow"] == allow
        for method in ("PUT", "TRACE", "BREW"):
            answer = app.call(method, path)
            problem(answer, 405, "method-not-allowed")
            assert answer.headers["allow"] == allow
    problem(app.get("/v1/keys/demo/seal"), 405, "method-not-allowed")
    problem(app.call("OPTIONS", "/nowhere"), 404, "not-found")
    problem(app.get("/v1/keys/demo/nothing"), 404, "not-found")
    head = app.call("HEAD", "/v1/keys/demo")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(app.get("/v1/keys/demo").content)


def test_headers_of_every_answer(app: App) -> None:
    for answer in (
        app.post("/v1/keys/demo/seal", content=b"", headers=OCTETS), app.get("/v1/keys"), app.get("/nowhere"),
        app.get("/livez"), app.post("/v1/keys/demo/seal"), app.get("/openapi.json"), app.call("OPTIONS", "/v1/keys"),
        app.get("/metrics"), app.call("PUT", "/v1/keys/demo/seal"),
    ):  # fmt: skip
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert 0 < len(answer.headers["x-request-id"]) <= 64
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("abc-123._Z", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("a b", False),
        ('"><', False),
        (b"\xff", False),
    ],
)
def test_request_ids(app: App, given: Any, kept: bool) -> None:
    expected = given if kept else None
    for headers, path in ((OCTETS, "/v1/keys/demo/seal"), (AUTH, "/v1/keys/of-request-ids")):
        answer = app.post(path, content=b"", headers={**headers, "x-request-id": given})
        assert (answer.headers["x-request-id"] == expected) is kept
    ids = {app.get("/livez").headers["x-request-id"] for _ in range(10)}
    assert len(ids) == 10


@pytest.mark.parametrize("name", ["authorization", "content-type", "sealane-aad"])
def test_headers_that_may_come_once(app: App, name: str) -> None:
    value = {"authorization": f"Bearer {TOKEN}", "content-type": "application/octet-stream", "sealane-aad": b64(b"a")}[
        name
    ]
    headers = [*OCTETS.items(), ("sealane-aad", b64(b"a")), (name, value)]
    problem(app.post("/v1/keys/demo/seal", content=b"", headers=headers), 400, "malformed")
    twice_harmless = [*OCTETS.items(), ("x-other", "1"), ("x-other", "2")]
    assert app.post("/v1/keys/demo/seal", content=b"", headers=twice_harmless).status_code == 200


def test_sealane_aad_must_be_base64(app: App) -> None:
    for text in ("QR==", "a b", "QQ"):
        members = problem(
            app.post("/v1/keys/demo/seal", content=b"", headers={**OCTETS, "sealane-aad": text}), 400, "malformed"
        )
        assert members["detail"].startswith("Sealane-Aad: ")


def test_a_prefix_that_a_proxy_adds(app: App) -> None:
    import httpx

    async def ask(path: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=app.app, root_path="/api")
        async with httpx.AsyncClient(transport=transport, base_url="http://sealane") as client:
            return await client.post(path, content=b"", headers=OCTETS)

    for path in ("/api/v1/keys/demo/seal", "/v1/keys/demo/seal"):
        assert app.portal.call(ask, path).status_code == 200
    assert app.portal.call(ask, "/apiv1/keys/demo/seal").status_code == 404
