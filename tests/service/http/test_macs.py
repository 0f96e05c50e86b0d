"""MAC and verify: JSON, octets of any length, batches."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator

import pytest
from http_harness import AUTH, OCTETS, App
from test_messages import b64, problem

MAC, VERIFY = "/v1/keys/demo-mac/mac", "/v1/keys/demo-mac/verify"


@pytest.mark.parametrize("size", [0, 1, 16, 64, 1350, 70_000, 3_000_000])
def test_raw_json_and_pieces_agree(app: App, size: int) -> None:
    message = os.urandom(size)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, size, 8191):
            yield message[start : start + 8191]

    in_octets = app.post(MAC, content=message, headers={**OCTETS, "accept": "application/octet-stream"})
    assert in_octets.headers["content-type"] == "application/octet-stream"
    assert len(in_octets.content) == 48
    in_json = app.post(MAC, content=pieces(), headers=OCTETS)
    assert in_json.headers["sealane-key-version"] == "1"
    assert in_json.json()["key_version"] == 1
    from_json = app.post(MAC, json={"message": b64(message)}).json()["mac"]
    for mac in (b64(in_octets.content), in_json.json()["mac"], from_json):
        assert app.post(VERIFY, json={"message": b64(message), "mac": mac}).json() == {"valid": True}
        headers = {**OCTETS, "sealane-mac": mac}
        assert app.post(VERIFY, content=message, headers=headers).json() == {"valid": True}
        assert app.post(VERIFY, content=pieces(), headers=headers).json() == {"valid": True}
        assert app.post(VERIFY, content=message + b"\0", headers=headers).json() == {"valid": False}


@pytest.mark.parametrize(
    ("accept", "octets"),
    [
        (None, False), ("*/*", False), ("application/json", False), ("application/octet-stream", True),
        ("APPLICATION/OCTET-STREAM", True), ("application/json, application/octet-stream;q=0.5", False),
        ("application/json;q=0.1, application/octet-stream", True), ("application/octet-stream, */*;q=0.1", True),
        ("application/octet-stream;q=0", False), ("application/*", False), ("text/html", False), (";;q=,,=", False),
        ("application/octet-stream;q=nonsense", False),
    ],
)  # fmt: skip
def test_accept_chooses_the_form_of_a_mac(app: App, accept: str | None, octets: bool) -> None:
    headers = dict(OCTETS) if accept is None else {**OCTETS, "accept": accept}
    answer = app.post(MAC, content=b"m", headers=headers)
    assert answer.headers["content-type"] == ("application/octet-stream" if octets else "application/json")


def test_every_flipped_bit_of_a_mac_is_seen(app: App) -> None:
    mac = app.post(MAC, content=b"m", headers={**OCTETS, "accept": "application/octet-stream"}).content
    for bit in range(8 * len(mac)):
        flipped = bytearray(mac)
        flipped[bit // 8] ^= 1 << bit % 8
        answer = app.post(VERIFY, content=b"m", headers={**OCTETS, "sealane-mac": b64(bytes(flipped))})
        # The header's form is checked; a version nobody knows is just not valid.
        assert answer.status_code == 400 if answer.status_code != 200 else answer.json() == {"valid": False}, bit
        assert answer.status_code == 200 or bit < 64


def test_what_is_no_mac_is_refused(app: App) -> None:
    for text in ("", "QQ==", "QR==", "not base64", b64(bytes(48)), b64(bytes((1, 2, 0, 0, 0, 0, 0, 1)) + bytes(40))):
        problem(app.post(VERIFY, content=b"", headers={**OCTETS, "sealane-mac": text}), 400, "malformed")
    problem(app.post(VERIFY, content=b"", headers=OCTETS), 400, "malformed")
    problem(app.post(VERIFY, json={"message": ""}), 400, "malformed")


def test_batches(app: App) -> None:
    results = app.post(MAC, json={"items": [{"message": b64(b"a")}, {"message": "QR=="}, {"message": ""}]}).json()
    macs = [result.get("mac") for result in results["results"]]
    assert macs[1] is None
    assert results["results"][1]["problem"]["status"] == 400
    items = [
        {"message": b64(b"a"), "mac": macs[0]},
        {"message": b64(b"b"), "mac": macs[0]},
        {"message": "", "mac": macs[2]},
        {"message": "", "mac": "QQ=="},
    ]
    checked = app.post(VERIFY, json={"items": items}).json()["results"]
    assert [result.get("valid") for result in checked] == [True, False, True, None]
    assert base64.b64decode(macs[0])[:8] == bytes((3, 3, 0, 0, 0, 0, 0, 1))


def test_a_mac_outlives_a_rotation(app: App) -> None:
    app.post("/v1/keys/turning-mac", json={"type": "poly1305-xchacha20"})
    mac = app.post("/v1/keys/turning-mac/mac", content=b"m", headers=OCTETS).json()["mac"]
    app.post("/v1/keys/turning-mac/rotate")
    after = app.post("/v1/keys/turning-mac/mac", content=b"m", headers=OCTETS).json()
    assert after["key_version"] == 2
    for each in (mac, after["mac"]):
        answer = app.post("/v1/keys/turning-mac/verify", json={"message": b64(b"m"), "mac": each}, headers=AUTH)
        assert answer.json() == {"valid": True}
