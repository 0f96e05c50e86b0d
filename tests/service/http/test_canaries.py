"""Nothing that comes in goes out in an error or a log: a canary in every place of a request, and a look at it all."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import httpx
from http_harness import AUTH, OCTETS, TOKEN, Server, ask, running_server

CANARY = "canary7f3a9e"
JSON = {**AUTH, "content-type": "application/json"}
# Plaintext must not be found in its base64 either, wherever in a group of three it begins.
FORMS = [
    CANARY.encode(),
    CANARY.upper().encode(),
    *(base64.b64encode(b"x" * shift + CANARY.encode())[4:12] for shift in range(3)),
]
BODY = base64.b64encode(CANARY.encode()).decode()


def requests(server: Server) -> list[httpx.Response]:
    url = server.url
    answers = []
    with httpx.Client() as client:

        def send(method: str, path: str, **kwargs: object) -> None:
            answers.append(client.request(method, url + path, **kwargs))  # type: ignore[arg-type]

        for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            for path in (f"/{CANARY}", f"/v1/{CANARY}", f"/v1/keys/{CANARY}!", f"/v1/keys/{CANARY}%2f/seal",
                         f"/docs/{CANARY}", f"/v1/keys/{CANARY}/seal", f"/v1/keys/{CANARY}/{CANARY}",
                         f"/v1/keys/{CANARY.upper()}/rotate",
                         f"/v1/tokens/{CANARY}", f"/livez?{CANARY}={CANARY}", f"/v1/keys?limit={CANARY}",
                         f"/v1/keys?prefix={'x' * 200}{CANARY}"):  # fmt: skip
                if (method, path) == ("POST", f"/v1/keys/{CANARY}"):
                    continue
                send(method, path, headers=AUTH)
                send(method, path)
        for path in ("/v1/keys/demo/seal", "/v1/keys/demo/open", "/v1/keys/demo-mac/mac", "/v1/keys/demo-mac/verify",
                     "/v1/keys/demo-mac/seal", "/v1/keys/new-key", "/v1/tokens"):  # fmt: skip
            for value in (CANARY, [CANARY], {CANARY: CANARY}, {"plaintext": CANARY}, {"plaintext": {CANARY: 1}},
                          {"plaintext": BODY, "aad": CANARY}, {"plaintext": BODY, CANARY: 1}, {"sealed": BODY},
                          {"items": [{CANARY: 1}, CANARY, {"plaintext": CANARY}, {"sealed": CANARY},
                                     {"message": CANARY}]},
                          {"items": CANARY}, {"message": CANARY}, {"message": BODY, "mac": BODY},
                          {"message": BODY, "mac": CANARY},
                          {"type": CANARY}, {"name": CANARY, "grants": CANARY}, {CANARY: {CANARY: CANARY}},
                          {"name": CANARY, "grants": [{"actions": [CANARY]}]}, {"name": CANARY + "\n", "grants": []},
                          {"name": "x", "grants": [{"actions": ["seal"], "keys": CANARY + "!"}]},
                          {"name": "x", "grants": [{"actions": ["seal"]}], "expires_at": CANARY}):  # fmt: skip
                send("POST", path, json=value, headers=AUTH)
            for body in (CANARY.encode(), b'{"' + CANARY.encode(), b'{"plaintext":"' + CANARY.encode() + b'\xff"}',
                         b"[" * 50000,
                         b'{"a":"' + CANARY.encode() + b'","a":1}', CANARY.encode("utf-16")):  # fmt: skip
                send("POST", path, content=body, headers=JSON)
                send("POST", path, content=body, headers={**AUTH, "content-type": f"text/{CANARY}"})
                send("POST", path, content=body, headers={**JSON, "content-encoding": CANARY})
                send("POST", path, content=body, headers={**JSON, "authorization": f"Bearer {CANARY}"})
                send("POST", path, content=body, headers={**JSON, "authorization": CANARY})
                send("POST", path, content=body, headers={**JSON, "x-request-id": CANARY + "!"})
                send(
                    "POST",
                    path,
                    content=body,
                    headers={**JSON, "accept": CANARY, "user-agent": CANARY, "cookie": CANARY},
                )
        for path in ("/v1/keys/demo/open", "/v1/keys/demo-mac/verify", "/v1/keys/demo-mac/mac", "/v1/keys/demo/seal"):
            for extra in ({}, {"sealane-aad": CANARY}, {"sealane-mac": CANARY}, {"sealane-mac": BODY}):
                send("POST", path, content=CANARY.encode() * 10, headers={**OCTETS, **extra})
        send("POST", "/v1/keys/demo/seal", content=CANARY.encode() * 200_000, headers=OCTETS)
    return answers


def raw_requests(server: Server) -> list[bytes]:
    replies = []
    for data in (
        f"{CANARY} / HTTP/1.1\r\n\r\n".encode(), f"GET /{CANARY} HTTP/{CANARY}\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\n{CANARY}\r\n\r\n".encode(),
        f"GET /\x01{CANARY} HTTP/1.1\r\nhost: {CANARY}\r\n\r\n".encode(),
        ask("POST", f"/{CANARY}", b"", f"content-length: {CANARY}"),
        ask("POST", "/v1/keys/demo/seal", b"", "content-type: application/octet-stream", "content-length: 99")
        + CANARY.encode(),
    ):  # fmt: skip
        with server.connect() as connection:
            connection.sendall(data)
            received = b""
            try:
                while chunk := connection.recv(65536):
                    received += chunk
            except ConnectionResetError:
                pass
            replies.append(received)
    return replies


def test_no_canary_comes_out(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with running_server(
        tmp_path, body_timeout=1, header_timeout=1, log_level="debug", max_message_bytes=2**20, audit_file=audit
    ) as server:
        answers = requests(server)
        replies = raw_requests(server)
        # What a failure of our own looks like in the log is seen in test_problems.
        metrics = httpx.get(f"{server.url}/metrics").content
        server.stop()
        log = server.log_path.read_bytes()
    assert len(answers) > 300
    refused = [answer for answer in answers if answer.status_code >= 400]
    assert len(refused) > 250
    assert all(answer.status_code < 500 for answer in answers)
    for answer in answers:
        everything = answer.content + repr(sorted(answer.headers.items())).encode()
        asked = (answer.request.method, answer.request.url.raw_path)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json" or answer.request.method == "HEAD", (
                asked
            )
            json.loads(answer.content)
        if answer.status_code < 300 and b'"problem"' not in answer.content:
            continue  # an answer that carries what was asked for
        for form in FORMS:
            assert form not in everything, asked
    for reply in replies:
        for form in FORMS:
            assert form not in reply
    for place, text in (("log", log), ("metrics", metrics), ("audit", audit.read_bytes())):
        for form in (*FORMS, TOKEN.encode()):
            assert form not in text, place
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines, "the log is JSON lines"
    assert os.stat(audit).st_size > 0
