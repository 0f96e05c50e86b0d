"""The OpenAPI document says what is served: schemas agree with the structs, and its examples work as they stand."""

from __future__ import annotations

import base64
import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from http_harness import AUTH, App
from hypothesis import given, settings
from hypothesis import strategies as st

from service import codecs
from service.problems import KINDS, TYPE_PREFIX
from service.routes.described import components

ITEMS = {"seal": codecs.SEAL, "open": codecs.OPEN, "mac": codecs.MAC, "verify": codecs.VERIFY}
KEYS = {"seal": "demo", "open": "demo", "mac": "demo-mac", "verify": "demo-mac"}


@pytest.fixture(scope="module")
def document(app: App) -> dict[str, Any]:
    answer = app.get("/openapi.json", headers={})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def validator(document: dict[str, Any], name: str) -> Any:
    return jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{name}", "components": document["components"]})


def test_all_calls_are_described(document: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {
        ("POST", "/v1/keys/{key}"), ("GET", "/v1/keys"), ("GET", "/v1/keys/{key}"), ("POST", "/v1/keys/{key}/rotate"),
        ("DELETE", "/v1/keys/{key}"), ("POST", "/v1/keys/{key}/undelete"), ("POST", "/v1/keys/{key}/seal"),
        ("POST", "/v1/keys/{key}/open"), ("POST", "/v1/keys/{key}/mac"), ("POST", "/v1/keys/{key}/verify"),
        ("POST", "/v1/keys/{key}/seal-stream"), ("POST", "/v1/keys/{key}/open-stream"),
        ("POST", "/v1/keys/{key}/mac-streams"), ("HEAD", "/v1/mac-streams/{stream}"),
        ("PATCH", "/v1/mac-streams/{stream}"), ("DELETE", "/v1/mac-streams/{stream}"),
        ("POST", "/v1/tokens"), ("GET", "/v1/tokens"), ("DELETE", "/v1/tokens/{token}"), ("GET", "/v1/engine"),
        ("GET", "/livez"), ("GET", "/readyz"), ("GET", "/metrics"),
    }  # fmt: skip


def test_the_document_is_sound(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            public = path in ("/livez", "/readyz", "/metrics")
            assert ("security" in operation) is not public, path
            assert operation["summary"], path
            assert operation["description"], path
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], (method, path, status)
    assert "HTTPValidationError" not in text


def test_documented_problems_are_those_that_exist(document: dict[str, Any]) -> None:
    text = json.dumps(document["paths"])
    for kind in KINDS.values():
        assert f"`{kind.slug}`" in text or kind.slug in ("not-found", "method-not-allowed", "conflict", "too-many")
        assert kind.type == TYPE_PREFIX + kind.slug


@pytest.mark.parametrize("action", ITEMS)
def test_examples_work_as_they_stand(app: App, document: dict[str, Any], action: str) -> None:
    body = document["paths"][f"/v1/keys/{{key}}/{action}"]["post"]["requestBody"]["content"]["application/json"]
    assert set(body["examples"]) == {"one", "batch"}
    for name, example in body["examples"].items():
        answer = app.post(f"/v1/keys/{KEYS[action]}/{action}", json=example["value"])
        assert answer.status_code == 200, answer.text
        kind = "Answer" if name == "one" else "Results"
        assert validator(document, f"{action.title()}{kind}").is_valid(answer.json())
        first = answer.json() if name == "one" else answer.json()["results"][0]
        assert "problem" not in first
        if action == "open":
            assert base64.b64decode(first["plaintext"]) == b"hello, world"
        if action == "verify":
            assert first == {"valid": True}


def test_management_examples_work(app: App, document: dict[str, Any]) -> None:
    for path, status in (("/v1/keys/{key}", 201), ("/v1/tokens", 201)):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        examples = body.get("examples") or body["schema"]["examples"]
        for example in examples.values() if isinstance(examples, dict) else examples:
            value = example.get("value", example)
            assert app.post(path.replace("{key}", "from-an-example"), json=value).status_code == status


def test_schemas_are_those_of_the_structs(document: dict[str, Any]) -> None:
    for name, schema in components().items():
        assert document["components"]["schemas"][name] == schema
    for action, codec in ITEMS.items():
        for struct, suffix in ((codec.item, "Item"), (codec.batch, "Batch")):
            schema = document["components"]["schemas"][f"{action.title()}{suffix}"]
            assert set(schema["properties"]) == set(struct.__struct_fields__)
            assert schema["additionalProperties"] is False


BASE64 = st.binary(max_size=20).map(lambda data: base64.b64encode(data).decode())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | BASE64,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["plaintext", "aad", "sealed", "message", "mac", "items", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
REQUESTS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("plaintext", "aad", "sealed", "message", "mac"), BASE64 | VALUES)
) | st.fixed_dictionaries({"items": st.lists(VALUES, max_size=2)})


@settings(max_examples=300, deadline=None)
@given(action=st.sampled_from(sorted(ITEMS)), value=REQUESTS)
def test_schema_and_decoder_accept_the_same(action: str, value: Any) -> None:
    """For single items: what the schema admits and is base64 is decoded, and nothing else is."""
    if "items" in value:
        return
    schema = {"$ref": f"#/components/schemas/{action.title()}Item", "components": {"schemas": components()}}
    admitted = jsonschema_rs.validator_for(schema).is_valid(value)
    for body in (json.dumps(value).encode(), json.dumps(value, separators=(",", ":"), sort_keys=True).encode()):
        try:
            decoded = ITEMS[action].decode(body, 10)
        except codecs.Problem:
            assert not admitted or not all(is_base64(text) for text in value.values())
        else:
            assert admitted
            again = json.loads(msgspec.json.encode(decoded))
            assert again == value


def is_base64(text: str) -> bool:
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except ValueError:
        return False


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_pages_need_no_other_site(app: App, page: str) -> None:
    answer = app.get(page, headers={})
    assert answer.status_code == 200
    assert "://" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "://" not in policy
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css", "redoc.standalone.js"):
        if f"/docs/{asset}" in answer.text:
            got = app.get(f"/docs/{asset}", headers={})
            assert got.status_code == 200
            assert len(got.content) > 50_000
            assert b"//cdn." not in got.content
    assert app.get("/docs/../app.py", headers={}).status_code == 404
    assert app.get("/docs/core.py", headers={}).status_code == 404
    assert AUTH["authorization"] not in answer.text
