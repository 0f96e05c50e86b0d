"""The calls on uploads, as draft-ietf-httpbis-resumable-upload has them."""

from __future__ import annotations

import base64
import json
import os
import re

import httpx
import pytest
from replicas import KEY

DATA = os.urandom(5000)
CREATE = f"/v1/keys/{KEY}/mac-streams"
PARTIAL = "application/partial-upload"


def begin(call, **headers: str) -> str:
    answer = call("POST", CREATE, headers=headers)
    assert answer.status_code == 201, answer.text
    assert re.fullmatch(r"/v1/mac-streams/[a-z2-7]{26}", answer.headers["location"])
    return str(answer.headers["location"])


def patch(
    call, location: str, offset: int | str, complete: object, content: bytes = b"", **more: str
) -> httpx.Response:
    headers = {"content-type": PARTIAL, "upload-offset": str(offset), **more}
    headers["upload-complete"] = {True: "?1", False: "?0"}.get(complete, str(complete))  # type: ignore[call-overload]
    answer: httpx.Response = call("PATCH", location, headers=headers, content=content)
    return answer


def slug(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["type"]).rpartition(":")[2]


def verifies(call, mac: str, data: bytes) -> bool:
    answer = call("POST", f"/v1/keys/{KEY}/verify", content=data,
                  headers={"content-type": "application/octet-stream", "sealane-mac": mac})  # fmt: skip
    return bool(answer.json()["valid"])


def test_a_whole_upload(call) -> None:
    made = call("POST", CREATE)
    assert made.headers["upload-offset"] == "0"
    assert made.headers["upload-complete"] == "?0"
    assert 86000 < int(made.headers["upload-limit"].removeprefix("max-age=")) <= 86400
    assert made.headers["sealane-key-version"] == "1"
    location = made.headers["location"]
    assert location == "/v1/mac-streams/" + made.json()["id"]
    assert (made.json()["key"], made.json()["key_version"], made.json()["offset"]) == (KEY, 1, 0)

    part = patch(call, location, 0, False, DATA[:3000])
    assert (part.status_code, part.content) == (204, b"")
    assert (part.headers["upload-offset"], part.headers["upload-complete"]) == ("3000", "?0")
    state = call("HEAD", location)
    assert (state.status_code, state.headers["upload-offset"], state.headers["upload-complete"]) == (204, "3000", "?0")
    assert state.headers["cache-control"] == "no-store"
    assert "upload-length" not in state.headers
    assert "sealane-mac" not in state.headers

    wrong = patch(call, location, 0, False, DATA[:3000])
    assert (wrong.status_code, slug(wrong), wrong.headers["upload-offset"]) == (409, "upload-offset", "3000")
    assert wrong.json()["expected-offset"] == 3000

    done = patch(call, location, 3000, True, DATA[3000:])
    assert (done.status_code, done.headers["upload-complete"], done.headers["upload-offset"]) == (200, "?1", "5000")
    assert done.json()["key_version"] == 1
    assert done.headers["sealane-mac"] == done.json()["mac"]
    assert verifies(call, done.json()["mac"], DATA)
    assert not verifies(call, done.json()["mac"], DATA[1:])

    for again in (patch(call, location, 3000, True, DATA[3000:]), patch(call, location, 5000, True)):
        assert (again.status_code, slug(again)) == (409, "upload-completed")
        assert "sealane-mac" not in again.headers
    state = call("HEAD", location)
    assert (state.headers["upload-complete"], state.headers["upload-length"]) == ("?1", "5000")
    assert state.headers["sealane-mac"] == done.json()["mac"]
    assert int(state.headers["upload-limit"].removeprefix("max-age=")) <= 3600
    assert call("DELETE", location).status_code == 204
    for gone in (call("DELETE", location), patch(call, location, 5000, True)):
        assert (gone.status_code, slug(gone)) == (404, "upload-not-found")
    assert call("HEAD", location).status_code == 404


def test_octets_by_accept(call) -> None:
    location = begin(call)
    done = patch(call, location, 0, True, DATA, accept="application/octet-stream")
    assert done.headers["content-type"] == "application/octet-stream"
    assert len(done.content) == 48
    assert verifies(call, base64.b64encode(done.content).decode(), DATA)


@pytest.mark.parametrize("complete", [True, False])
def test_a_creation_may_bring_data(call, complete: bool) -> None:
    headers = {"content-type": "application/octet-stream", "upload-complete": "?1" if complete else "?0"}
    made = call("POST", CREATE, headers=headers, content=DATA)
    assert made.headers["upload-offset"] == "5000"
    if complete:
        assert made.status_code == 200
        mac = made.json()["mac"]
    else:
        assert made.status_code == 201
        mac = patch(call, made.headers["location"], 5000, True).json()["mac"]
    assert verifies(call, mac, DATA)


def test_verify(call) -> None:
    mac = patch(call, begin(call), 0, True, DATA).json()["mac"]
    for data, valid in ((DATA, True), (DATA[:-1] + b"?", False)):
        location = begin(call, **{"sealane-mac": mac})
        assert patch(call, location, 0, False, data[:100]).status_code == 204
        done = patch(call, location, 100, True, data[100:])
        assert done.json() == {"valid": valid}
        state = call("HEAD", location)
        assert state.headers["sealane-valid"] == done.headers["sealane-valid"] == ("?1" if valid else "?0")
        assert "sealane-mac" not in state.headers
    for wrong in ("", "AAAA", "x"):
        answer = call("POST", CREATE, headers={"sealane-mac": wrong})
        assert (answer.status_code, slug(answer)) == (400, "malformed")


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"content-type": "application/octet-stream"}, 415, "unsupported-media-type"),
        ({"content-encoding": "gzip"}, 415, "unsupported-media-type"),
        ({"upload-offset": ""}, 400, "malformed"),
        ({"upload-offset": "-1"}, 400, "malformed"),
        ({"upload-offset": "1.0"}, 400, "malformed"),
        ({"upload-offset": '"0"'}, 400, "malformed"),
        ({"upload-offset": "9" * 16}, 400, "malformed"),
        ({"upload-offset": "0, 0"}, 400, "malformed"),
        ({"upload-complete": "1"}, 400, "malformed"),
        ({"upload-complete": "true"}, 400, "malformed"),
        ({"upload-complete": "?2"}, 400, "malformed"),
        ({"upload-length": "3", "upload-complete": "?1"}, 400, "malformed"),
        ({"upload-offset": "1"}, 409, "upload-offset"),
        ({"authorization": "Bearer nobody"}, 401, "not-authenticated"),
    ],
)  # fmt: skip
def test_refused_and_nothing_changed(call, headers: dict[str, str], status: int, kind: str) -> None:
    location = begin(call)
    given = {"content-type": PARTIAL, "upload-offset": "0", "upload-complete": "?0", **headers}
    answer = call("PATCH", location, headers=given, content=b"data")
    assert (answer.status_code, slug(answer)) == (status, kind)
    assert answer.headers.get("accept-patch") == (PARTIAL if "content-type" in headers else None)
    assert call("HEAD", location).headers["upload-offset"] == "0"
    # Parameters of the items mean nothing, and are no fault.
    assert patch(call, location, "0;a=b", "?0;c").status_code == 204


def test_lengths(call) -> None:
    location = begin(call, **{"upload-length": "10"})
    assert call("HEAD", location).headers["upload-length"] == "10"
    assert slug(patch(call, location, 0, True, b"short")) == "upload-length"
    assert slug(patch(call, location, 0, False, b"", **{"upload-length": "11"})) == "upload-length"
    assert patch(call, location, 0, False, b"abc").status_code == 204
    # Without a length of its own a body shows only at its end how long it is.
    pieces = [b"d", b"e"]

    async def trickle():
        for piece in pieces:
            yield piece

    assert slug(patch(call, location, 3, True, trickle())) == "upload-length"  # type: ignore[arg-type]
    assert call("HEAD", location).headers["upload-offset"] == "5"
    assert slug(patch(call, location, 5, False, b"123456")) == "upload-length"
    assert call("HEAD", location).status_code == 404


def test_who_may(call) -> None:
    def token(*actions: str) -> dict[str, str]:
        made = call("POST", "/v1/tokens", json={"name": "t", "grants": [{"actions": list(actions), "keys": KEY}]})
        return {"authorization": f"Bearer {made.json()['token']}"}

    macs, checks, lists = token("mac"), token("verify"), token("list")
    location = begin(call)
    mac = patch(call, begin(call), 0, True, DATA).json()["mac"]
    checking = begin(call, **{"sealane-mac": mac})
    for place, may, may_not in ((location, macs, (checks, lists)), (checking, checks, (macs, lists))):
        for headers in may_not:
            assert call("HEAD", place, headers=headers).status_code == 404
            assert slug(patch(call, place, 0, False, b"x", **headers)) == "upload-not-found"
            assert slug(call("DELETE", place, headers=headers)) == "upload-not-found"
        assert patch(call, place, 0, False, b"x", **may).status_code == 204
    assert slug(call("POST", CREATE, headers=checks)) == "not-allowed"
    assert slug(call("POST", CREATE, headers={**macs, "sealane-mac": mac})) == "not-allowed"
    assert slug(call("POST", "/v1/keys/none/mac-streams", headers=macs)) == "not-allowed"
    assert slug(call("POST", "/v1/keys/none/mac-streams")) == "key-not-found"


def test_a_revoked_token_gets_no_mac_in_the_end(call) -> None:
    made = call("POST", "/v1/tokens", json={"name": "t", "grants": [{"actions": ["mac"], "keys": "*"}]}).json()
    location = begin(call)

    headers = {"authorization": f"Bearer {made['token']}"}

    class Revoking:
        async def __aiter__(self):
            yield DATA[:2000]
            await call.access.revoke(made["id"], actor="test")
            yield DATA[2000:]

    answer = patch(call, location, 0, True, Revoking(), **headers)  # type: ignore[arg-type]
    assert (answer.status_code, slug(answer)) == (401, "not-authenticated")
    # What came is kept, for whoever may go on.
    assert call("HEAD", location).headers["upload-offset"] == "5000"
    assert verifies(call, patch(call, location, 5000, True).json()["mac"], DATA)


def test_options_and_other_methods(call) -> None:
    answer = call("OPTIONS", CREATE)
    assert (answer.status_code, answer.headers["accept-patch"]) == (204, PARTIAL)
    location = begin(call)
    assert set(call("OPTIONS", location).headers["allow"].split(", ")) == {"HEAD", "PATCH", "DELETE", "OPTIONS"}
    for method in ("GET", "POST", "PUT"):
        answer = call(method, location)
        assert (answer.status_code, slug(answer)) == (405, "method-not-allowed")
    assert call("HEAD", "/v1/mac-streams/").status_code == 404
    assert call("HEAD", location + "/x").status_code == 404


def test_metrics_and_audit(call) -> None:
    location = begin(call)
    patch(call, location, 0, False, DATA)
    mac = patch(call, location, 5000, True).json()["mac"]
    checking = begin(call, **{"sealane-mac": mac})
    patch(call, checking, 0, True, DATA)
    text = call("GET", "/metrics").text
    for operation in ("mac-stream", "verify-stream", "mac-stream-create"):
        assert f'sealane_calls_total{{form="raw",operation="{operation}",outcome="ok"}}' in text
    assert 'sealane_calls_total{form="storage",operation="upload-checkpoint",outcome="ok"}' in text
    lines = [json.loads(line) for line in call.audit.read_text().splitlines()]
    id = location.rpartition("/")[2]
    mine = [(line["action"], line["key"], line["version"], line["outcome"], line["bytes_in"]) for line in lines
            if line.get("stream") == id]  # fmt: skip
    assert mine == [
        ("mac-stream-create", KEY, 1, "ok", 0), ("mac-stream", KEY, 1, "ok", 5000), ("mac-stream", KEY, 1, "ok", 0),
    ]  # fmt: skip
    actions = [line["action"] for line in lines if line.get("stream") == checking.rpartition("/")[2]]
    assert actions == ["verify-stream-create", "verify-stream"]
    assert mac not in call.audit.read_text()
