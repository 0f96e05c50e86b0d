"""Key and token commands do the same on the storage and through a service."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from cli_harness import Run, Server

from service.cli.token import expiry


@pytest.fixture(params=["storage", "service"])
def at(request: pytest.FixtureRequest, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs commands on a fresh storage, and through a running service."""
    if request.param == "storage":
        assert run("init").exit_code == 0
    else:
        server: Server = request.getfixturevalue("server")
        monkeypatch.setenv("SEALANE_URL", server.url)
        monkeypatch.setenv("SEALANE_TOKEN", server.token)
    return run


def test_life_of_a_key(at: Run, request: pytest.FixtureRequest) -> None:
    name = "orders.eu-1"
    made = at("key", "create", name, "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["type"] == "xchacha20-poly1305"
    assert json.loads(at("key", "rotate", name, "--json").stdout)["current_version"] == 2
    described = json.loads(at("key", "describe", name, "--json").stdout)
    assert [version["version"] for version in described["versions"]] == [1, 2]
    deleted = json.loads(at("key", "delete", name, "--json").stdout)
    assert deleted["state"] == "pending-deletion"
    assert datetime.fromisoformat(deleted["delete_at"]) > datetime.now(UTC) + timedelta(days=6)
    undone = json.loads(at("key", "undelete", name, "--json").stdout)
    assert undone["state"] == "active"
    assert undone["delete_at"] is None
    assert "(current)" in at("key", "describe", name).stdout


def test_types_and_listing(at: Run) -> None:
    for name, type in (("list-a", "chacha20-poly1305"), ("list-b", "poly1305-xchacha20")):
        assert at("key", "create", name, "--type", type).exit_code == 0
    listed = json.loads(at("key", "list", "--prefix", "list-", "--json").stdout)
    assert [(key["name"], key["type"]) for key in listed] == [
        ("list-a", "chacha20-poly1305"),
        ("list-b", "poly1305-xchacha20"),
    ]
    assert "list-a" in at("key", "list").stdout


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (("key", "create", "Bad Name"), 2, "key name"),
        (("key", "create", "x", "--type", "rot13"), 2, ""),
        (("key", "describe", "no-such-key"), 1, "no such key"),
        (("key", "rotate", "no-such-key"), 1, "no such key"),
        (("token", "create", "t", "--grant", "fly:*"), 2, "actions"),
        (("token", "create", "t", "--grant", "seal:A B"), 2, "pattern"),
        (("token", "create", "t", "--grant", "seal", "--expires", "soon"), 2, "--expires wants"),
        (("token", "revoke", "nobody"), 1, ""),
    ],
)
def test_mistakes_are_told_in_one_line(at: Run, command: tuple[str, ...], code: int, text: str) -> None:
    result = at(*command)
    assert result.exit_code == code, result.output
    assert text in result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("sealane: ")
    assert result.stderr.count("\n") == 1


def test_the_same_key_twice(at: Run) -> None:
    assert at("key", "create", "twice").exit_code == 0
    again = at("key", "create", "twice")
    assert again.exit_code == 1
    assert "exists already" in again.stderr


def test_life_of_a_token(at: Run, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    made = at(
        "token", "create", "orders service", "--grant", "seal,open:orders-*", "--grant", "list", "--expires", "2h"
    )
    assert made.exit_code == 0, made.output
    token = made.stdout.strip()
    assert token.startswith("sealane_")
    assert token not in made.stderr
    found = [one for one in json.loads(at("token", "list", "--json").stdout) if one["name"] == "orders service"]
    record = found[-1]
    assert record["grants"] == [{"actions": ["open", "seal"], "keys": "orders-*"}, {"actions": ["list"], "keys": "*"}]
    assert token not in at("token", "list", "--json").stdout
    left = datetime.fromisoformat(record["expires_at"]) - datetime.now(UTC)
    assert timedelta(hours=1, minutes=58) < left <= timedelta(hours=2)
    assert record["id"] in at("token", "list").stdout
    assert at("token", "revoke", record["id"]).exit_code == 0
    after = [one for one in json.loads(at("token", "list", "--json").stdout) if one["id"] == record["id"]]
    assert after[0]["revoked_at"] is not None


def test_a_token_only_does_what_it_was_granted(run: Run, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALANE_URL", server.url)
    monkeypatch.setenv("SEALANE_TOKEN", server.token)
    token = run("token", "create", "reader", "--grant", "list:demo").stdout.strip()
    monkeypatch.setenv("SEALANE_TOKEN", token)
    assert [key["name"] for key in json.loads(run("key", "list", "--json").stdout)] == ["demo"]
    refused = run("key", "rotate", "demo")
    assert refused.exit_code == 77
    assert "may not" in refused.stderr
    assert run("token", "list").exit_code == 77


def test_a_wrong_token(run: Run, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALANE_URL", server.url)
    monkeypatch.setenv("SEALANE_TOKEN", "sealane_wrong")
    result = run("key", "list")
    assert result.exit_code == 77
    assert "sealane_wrong" not in result.output


def test_a_service_without_token_variable(run: Run, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALANE_URL", server.url)
    result = run("key", "list")
    assert result.exit_code == 78
    assert "SEALANE_TOKEN" in result.stderr


@pytest.mark.parametrize(
    ("url", "code"), [("http://127.0.0.1:1", 69), ("not a url", 78), ("ftp://127.0.0.1", 78), ("http://[::1", 78)]
)
def test_a_service_that_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch, url: str, code: int) -> None:
    monkeypatch.setenv("SEALANE_URL", url)
    monkeypatch.setenv("SEALANE_TOKEN", "x")
    result = run("key", "list")
    assert result.exit_code == code, result.output
    assert "SEALANE_URL" in result.stderr
    assert result.stderr.count("\n") == 1


def test_expiry() -> None:
    assert expiry("30d") - datetime.now(UTC) == pytest.approx(timedelta(days=30), abs=timedelta(seconds=5))
    assert expiry("2030-01-02") == datetime(2030, 1, 2, tzinfo=UTC)
    assert expiry("2030-01-02T03:04:05+02:00").utcoffset() == timedelta(hours=2)
    for bad in ("", "30", "-1d", "1w", "tomorrow", "0d"):
        with pytest.raises(ValueError, match=r".*"):
            expiry(bad)
