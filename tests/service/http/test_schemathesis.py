"""Requests made up from the OpenAPI document, within bounds: no server error, and answers as documented."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from http_harness import AUTH, App
from hypothesis import HealthCheck, Phase, settings

from service.app import create_app
from service.settings import Settings

schemathesis.serializer.alias("application/partial-upload", "application/octet-stream")

DOCUMENT = create_app(Settings()).openapi()
schema = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.mark.slow
@schema.parametrize()
@settings(
    max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate], derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)  # fmt: skip
def test_answers_are_as_documented(app: App, case: Any) -> None:
    request = case.as_transport_kwargs(base_url="http://sealane")
    request = {
        name: request[name] for name in ("method", "url", "headers", "params", "json", "data") if name in request
    }
    headers = {**request.pop("headers", {}), **AUTH}
    data = request.pop("data", None)
    if data is not None:
        request["content"] = data if isinstance(data, bytes) else str(data).encode()
    try:
        answer = app.call(request.pop("method"), request.pop("url"), headers=headers, **request)
    except (UnicodeEncodeError, ValueError, TypeError):
        return  # the client itself can't send it
    assert answer.status_code < 500, answer.text
    operation = DOCUMENT["paths"][case.operation.path][case.operation.method]
    known = {*operation["responses"], "404", "405", "415"} | ({"204"} if case.method == "OPTIONS" else set())
    assert str(answer.status_code) in known, answer.text
    if case.method == "OPTIONS":
        return
    kind = answer.headers.get("content-type", "")
    if answer.status_code >= 400:
        assert kind == "application/problem+json"
    elif answer.content:
        assert kind.split(";")[0] in operation["responses"][str(answer.status_code)]["content"]
