"""Seal and open: JSON, octets, batches, and every way to get them wrong."""

from __future__ import annotations

import base64
import os
import threading
from typing import Any

import pytest
from http_harness import AUTH, OCTETS, App

from service.errors import NeedLease
from service.leases import Lease

SEAL, OPEN = "/v1/keys/demo/seal", "/v1/keys/demo/open"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def problem(response: Any, status: int, slug: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    members: dict[str, Any] = response.json()
    assert members["type"] == f"urn:sealane:problem:{slug}"
    assert members["status"] == status
    assert members["title"]
    assert members["detail"]
    return members


@pytest.mark.parametrize("size", [0, 1, 15, 16, 64, 1350, 65536, 65537, 300_000])
@pytest.mark.parametrize("aad", [None, b"", b"order 66"])
def test_octets_come_back(app: App, size: int, aad: bytes | None) -> None:
    plaintext = os.urandom(size)
    headers = OCTETS if aad is None else {**OCTETS, "sealane-aad": b64(aad)}
    sealed = app.post(SEAL, content=plaintext, headers=headers)
    assert sealed.status_code == 200
    assert sealed.headers["content-type"] == "application/octet-stream"
    assert sealed.headers["sealane-key-version"] == "1"
    assert len(sealed.content) == size + 48
    opened = app.post(OPEN, content=sealed.content, headers=headers)
    assert opened.content == plaintext
    assert opened.headers["sealane-key-version"] == "1"


def test_json_and_octets_are_one_format(app: App) -> None:
    sealed = app.post(SEAL, json={"plaintext": b64(b"hello"), "aad": b64(b"a")}).json()
    assert set(sealed) == {"sealed", "key_version"}
    message = base64.b64decode(sealed["sealed"], validate=True)
    opened = app.post(OPEN, content=message, headers={**OCTETS, "sealane-aad": b64(b"a")})
    assert opened.content == b"hello"
    assert app.post(OPEN, json={"sealed": b64(message), "aad": b64(b"a")}).json() == {
        "plaintext": b64(b"hello"),
        "key_version": 1,
    }


def test_empty_values_are_present(app: App) -> None:
    sealed = app.post(SEAL, json={"plaintext": "", "aad": ""}).json()["sealed"]
    assert app.post(OPEN, json={"sealed": sealed}).json() == {"plaintext": "", "key_version": 1}


@pytest.mark.parametrize(
    "text",
    ["QR==", "QUJ=", "QQ", "QQ=", "QQ===", "Q", "QUI", "Q Q==", "QQ==\n", " QQ==", "QQ==QQ==", "Q-==", "Q_==", "====",
     "=", "Q===", "QQ=Q", "\u00e9", "Q\x00==", "\ud800", "QQ\\=="],
)  # fmt: skip
@pytest.mark.parametrize("field", ["plaintext", "aad"])
def test_base64_has_one_spelling(app: App, text: str, field: str) -> None:
    import json

    body = json.dumps({"plaintext": "", field: text}).encode()
    members = problem(
        app.post(SEAL, content=body, headers={**AUTH, "content-type": "application/json"}), 400, "malformed"
    )
    assert members["detail"].startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "JSON"), (b"{", "JSON"), (b"nul", "JSON"), (b"{}x", "JSON"), (b"NaN", "JSON"), (b"\xff", "JSON"),
        (b'{"plaintext":"\xff"}', "JSON"), ('{"plaintext":""}'.encode("utf-16"), "JSON"),
        (b'\xef\xbb\xbf{"plaintext":""}', "JSON"), (b'{"plaintext":NaN}', "JSON"), (b'{"plaintext":"\x00"}', "JSON"),
        (b"[" * 100_000, "JSON"), (b'{"plaintext":' + b"[" * 100_000, "JSON"), (b'{"a":' * 50_000, "JSON"),
        (b'{"plaintext":' + b"[" * 2000 + b"]" * 2000 + b"}", ""), (b'{"plaintext":' + b"9" * 5000 + b"}", "JSON"),
        (b'{"items":' + b"[" * 100_000, "JSON"),
        (b"[]", "object"), (b"null", "object"), (b'"QQ=="', "object"), (b"5", "object"),
        (b"{}", "plaintext"), (b'{"aad":""}', "plaintext"), (b'{"plaintext":5}', "string"),
        (b'{"plaintext":null}', "string"), (b'{"plaintext":["QQ=="]}', "string"),
        (b'{"plaintext":"","aad":null}', "string"),
        (b'{"plaintext":"","more":1}', "no other"), (b'{"plaintext":"","items":[]}', "object"),
        (b'{"items":{}}', "items"), (b'{"items":null}', "items"),
        (b'{"plaintext":"","plaintext":""}', "once"), (b'{"plaintext":"","aad":"","aad":""}', "once"),
        (b'{"plaintext":"","\\u0070laintext":""}', "once"), (b'{"items":[],"items":[]}', "once"),
    ],
)  # fmt: skip
def test_other_json_is_refused(app: App, body: bytes, detail: str) -> None:
    answer = app.post(SEAL, content=body, headers={**AUTH, "content-type": "application/json"})
    assert detail in problem(answer, 400, "malformed")["detail"]


@pytest.mark.parametrize(
    "body",
    [b'{"plaintext":"aGk="}', b'{ "plaintext" :\n\t"aGk=" }', b'{"aad":"","plaintext":"aGk="}', 
     b'{"plaintext":"\\u0061Gk="}', b'{"\\u0070laintext":"aGk="}', b'{"plaintext":"aGk=","aad":""}'],
)  # fmt: skip
def test_every_spelling_of_the_same_json_is_served(app: App, body: bytes) -> None:
    sealed = app.post(SEAL, content=body, headers={**AUTH, "content-type": "application/json; charset=utf-8"})
    assert sealed.status_code == 200
    assert app.post(OPEN, json={"sealed": sealed.json()["sealed"]}).json()["plaintext"] == "aGk="


def test_one_bad_item_spoils_no_other(app: App) -> None:
    items: list[Any] = [{"plaintext": b64(b"%d" % index)} for index in range(8)]
    items[1] = {"plaintext": "QR=="}
    items[3] = 5
    items[5] = {"plaintext": 5}
    items[6] = {"plaintext": "", "other": 1}
    results = app.post(SEAL, json={"items": items}).json()["results"]
    assert [index for index, result in enumerate(results) if "problem" in result] == [1, 3, 5, 6]
    for result in results:
        if "problem" in result:
            assert set(result) == {"problem"}
            assert set(result["problem"]) == {"type", "title", "status", "detail"}
            assert result["problem"]["type"] == "urn:sealane:problem:malformed"
    good = [result["sealed"] for result in results if "sealed" in result]
    broken = good[0][:-8] + ("AAAAAAA=" if good[0].endswith("=") else "AAAAAAAA")
    opened = app.post(OPEN, json={"items": [{"sealed": text} for text in [*good, broken, "QQ=="]]}).json()["results"]
    assert [result["plaintext"] for result in opened[:4]] == [b64(b"%d" % index) for index in (0, 2, 4, 7)]
    assert opened[4]["problem"]["type"] == "urn:sealane:problem:does-not-open"
    assert opened[5]["problem"]["type"] == "urn:sealane:problem:malformed"


def test_a_duplicate_key_in_an_item_is_that_items_problem(app: App) -> None:
    body = b'{"items":[{"plaintext":""},{"plaintext":"","plaintext":""}]}'
    results = app.post(SEAL, content=body, headers={**AUTH, "content-type": "application/json"}).json()["results"]
    assert "sealed" in results[0]
    assert "once" in results[1]["problem"]["detail"]


def test_batches_of_none_and_of_too_many(app: App) -> None:
    assert app.post(SEAL, json={"items": []}).json() == {"results": []}
    most = app.app.settings.max_batch_items
    assert len(app.post(SEAL, json={"items": [{"plaintext": ""}] * most}).json()["results"]) == most
    for count in (most + 1, 100_000):
        members = problem(app.post(SEAL, json={"items": [{"plaintext": ""}] * count}), 413, "batch-too-large")
        assert members["limit"] == most


def test_a_message_cut_anywhere_or_with_any_bit_flipped_does_not_open(app: App) -> None:
    headers = {**OCTETS, "sealane-aad": b64(b"aad")}
    message = app.post(SEAL, content=b"hi", headers=headers).content
    for length in range(len(message)):
        answer = app.post(OPEN, content=message[:length], headers=headers)
        assert answer.status_code == (400 if length < 48 else 422), length
    for bit in range(8 * len(message)):
        flipped = bytearray(message)
        flipped[bit // 8] ^= 1 << bit % 8
        answer = app.post(OPEN, content=bytes(flipped), headers=headers)
        assert answer.status_code in (400, 422), bit
        # Format, algorithm and the zero bytes are form; all else is one and the same answer.
        assert answer.json()["type"].endswith("does-not-open") or bit < 64
    assert app.post(OPEN, content=message, headers=OCTETS).status_code == 422
    assert app.post(OPEN, content=message + b"\0", headers=headers).status_code == 422
    assert app.post(OPEN, content=message, headers=headers).content == b"hi"


def test_one_answer_for_wrong_key_aad_tag_and_version(app: App) -> None:
    app.post("/v1/keys/other-key")
    message = app.post(SEAL, content=b"hi", headers=OCTETS).content
    unknown = message[:7] + b"\x63" + message[8:]
    answers = [
        app.post("/v1/keys/other-key/open", content=message, headers=OCTETS),
        app.post(OPEN, content=message, headers={**OCTETS, "sealane-aad": "QQ=="}),
        app.post(OPEN, content=message[:-1] + bytes([message[-1] ^ 1]), headers=OCTETS),
        app.post(OPEN, content=unknown, headers=OCTETS),
    ]
    assert {answer.status_code for answer in answers} == {422}
    assert len({answer.content for answer in answers}) == 1


def test_a_key_serves_one_purpose(app: App) -> None:
    for path, key in (("seal", "demo-mac"), ("open", "demo-mac"), ("mac", "demo")):
        problem(app.post(f"/v1/keys/{key}/{path}", content=bytes(64), headers=OCTETS), 400, "wrong-key-type")
    mac = b64(bytes((3, 3, 0, 0, 0, 0, 0, 1)) + bytes(40))
    answer = app.post("/v1/keys/demo/verify", content=b"", headers={**OCTETS, "sealane-mac": mac})
    problem(answer, 400, "wrong-key-type")


def test_rotate_while_sealing(app: App) -> None:
    app.post("/v1/keys/turning")
    stop = threading.Event()
    sealed: list[bytes] = []
    failures: list[str] = []

    def seal() -> None:
        while not stop.is_set():
            answer = app.post("/v1/keys/turning/seal", content=b"x", headers=OCTETS)
            if answer.status_code == 200:
                sealed.append(answer.content)
            else:
                failures.append(answer.text)

    threads = [threading.Thread(target=seal) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        assert app.post("/v1/keys/turning/rotate").status_code == 200
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert {message[7] for message in sealed} >= {6} or sealed
    for message in sealed[:: max(1, len(sealed) // 50)]:
        assert app.post("/v1/keys/turning/open", content=message, headers=OCTETS).content == b"x"
    assert app.post("/v1/keys/turning/seal", content=b"", headers=OCTETS).headers["sealane-key-version"] == "6"


def test_a_key_out_of_use_is_refused_and_comes_back(app: App) -> None:
    app.post("/v1/keys/leaving")
    message = app.post("/v1/keys/leaving/seal", content=b"x", headers=OCTETS).content
    gone = app.call("DELETE", "/v1/keys/leaving").json()
    assert gone["state"] == "pending-deletion"
    assert gone["delete_at"]
    problem(app.post("/v1/keys/leaving/seal", content=b"x", headers=OCTETS), 409, "key-deleted")
    problem(app.post("/v1/keys/leaving/open", content=message, headers=OCTETS), 409, "key-deleted")
    assert app.post("/v1/keys/leaving/undelete").json()["state"] == "active"
    assert app.post("/v1/keys/leaving/open", content=message, headers=OCTETS).content == b"x"


@pytest.mark.parametrize("form", ["one", "batch", "octets"])
def test_a_lease_that_others_used_up_in_between_is_asked_for_again(
    app: App, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Between the lease and the sealing, in a thread perhaps, other calls may take what was leased."""
    name = f"limited-{form}"
    assert app.post(f"/v1/keys/{name}", json={"type": "chacha20-poly1305"}).status_code == 201
    refused = []
    take = Lease.take

    def others_first(lease: Lease, count: int) -> None:
        if len(refused) < 2:
            lease.give_up()
        try:
            take(lease, count)
        except NeedLease:
            refused.append(count)
            raise

    monkeypatch.setattr(Lease, "take", others_first)
    body: dict[str, Any] = {
        "one": {"json": {"plaintext": ""}},
        "batch": {"json": {"items": [{"plaintext": ""}] * 3}},
        "octets": {"content": b"", "headers": OCTETS},
    }[form]
    assert app.post(f"/v1/keys/{name}/seal", **body).status_code == 200
    assert refused == [3 if form == "batch" else 1] * 2
