"""The client, sync and async, against a real server."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from inspect import iscoroutinefunction, signature

import httpx
import pytest
from cli_harness import Server

from service import client as sealane
from service.client import AsyncClient, Client
from service.problems import KINDS


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, server.token) as client:
        yield client


@pytest.fixture
def asynchronously(server: Server) -> Callable[[Callable[[AsyncClient], Awaitable[None]]], None]:
    """Runs a coroutine function with an AsyncClient."""

    def run(work: Callable[[AsyncClient], Awaitable[None]]) -> None:
        async def connected() -> None:
            async with AsyncClient(server.url, server.token) as client:
                await work(client)

        asyncio.run(connected())

    return run


@pytest.mark.parametrize("plaintext", [b"", b"attack at dawn", bytes(range(256)) * 4096], ids=len)
@pytest.mark.parametrize("aad", [b"", b"order 66"])
def test_seal_and_open(client: Client, plaintext: bytes, aad: bytes) -> None:
    sealed = client.seal("demo", plaintext, aad)
    assert sealed.key_version == 1
    assert len(sealed.message) == len(plaintext) + 48
    opened = client.open("demo", memoryview(sealed.message), aad)
    assert (opened.plaintext, opened.key_version) == (plaintext, 1)
    with pytest.raises(sealane.DoesNotOpen) as caught:
        client.open("demo", sealed.message, aad + b"!")
    assert caught.value.status == 422


@pytest.mark.parametrize(
    "data",
    [
        lambda: b"x" * 300_000,
        lambda: bytearray(b"x" * 300_000),
        lambda: memoryview(b"x" * 300_000),
        lambda: (b"x" * 1000 for _ in range(300)),
        lambda: io.BytesIO(b"x" * 300_000),
    ],
    ids=["bytes", "bytearray", "memoryview", "pieces", "file"],
)
def test_mac_and_verify(client: Client, data: Callable[[], sealane.data.Data]) -> None:
    made = client.mac("demo-mac", data())
    assert len(made.mac) == 48
    assert client.verify("demo-mac", made.mac, data()) is True
    assert client.verify("demo-mac", made.mac, b"something else") is False


def test_batches_keep_their_order_and_one_bad_item_spoils_no_other(client: Client) -> None:
    sealed = client.seal_many("demo", [b"one", (b"two", b"aad"), b""])
    messages = [one.message for one in sealed if isinstance(one, sealane.Sealed)]
    assert len(messages) == 3
    opened = client.open_many("demo", [messages[0], (messages[1], b"wrong"), messages[2], b"short"])
    assert isinstance(opened[0], sealane.Opened)
    assert opened[0].plaintext == b"one"
    assert isinstance(opened[1], sealane.DoesNotOpen)
    assert isinstance(opened[2], sealane.Opened)
    assert opened[2].plaintext == b""
    assert isinstance(opened[3], sealane.Malformed)

    macs = client.mac_many("demo-mac", [b"one", b"two"])
    made = [one.mac for one in macs if isinstance(one, sealane.Mac)]
    verified = client.verify_many("demo-mac", [(b"one", made[0]), (b"two", made[0]), (b"two", b"short")])
    assert verified[:2] == [True, False]
    assert isinstance(verified[2], sealane.Malformed)


def test_keys(client: Client) -> None:
    assert client.create_key("client-keys", "chacha20-poly1305").type == "chacha20-poly1305"
    with pytest.raises(sealane.KeyExists):
        client.create_key("client-keys")
    assert client.rotate_key("client-keys").current_version == 2
    assert client.delete_key("client-keys").state == "pending-deletion"
    with pytest.raises(sealane.KeyDeleted):
        client.seal("client-keys", b"")
    assert client.undelete_key("client-keys").state == "active"
    assert client.describe_key("client-keys").versions[1].created_at.tzinfo is not None
    with pytest.raises(sealane.KeyNotFound):
        client.describe_key("nobody")
    with pytest.raises(sealane.WrongKeyType):
        client.mac("demo", b"")


def test_listing_goes_on_over_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        client.create_key(name)
    monkeypatch.setattr("service.client.sync.PAGE", 2)
    assert [key.name for key in client.list_keys("page-")] == names


def test_tokens(client: Client, server: Server) -> None:
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    made = client.create_token("client", [sealane.Grant(["seal"], "demo")], expires_at)
    assert made.token not in repr(client.list_tokens())
    with Client(server.url, made.token) as limited:
        assert limited.seal("demo", b"x").key_version == 1
        with pytest.raises(sealane.NotAllowed):
            limited.open("demo", bytes(48))
        with pytest.raises(sealane.NotAllowed):
            limited.engine()
        client.revoke_token(made.id)
        with pytest.raises(sealane.NotAuthenticated):
            limited.seal("demo", b"x")


def test_engine(client: Client) -> None:
    info = client.engine()
    assert info.backend in info.backends
    assert info.selftest[info.kernel] == "ok"


def test_names_can_not_escape_their_place_in_the_path(client: Client) -> None:
    for name in ("../livez", "demo/../demo", "a/b", "%2e%2e", "demo?x=y"):
        with pytest.raises(sealane.ServiceError) as caught:
            client.describe_key(name)
        assert caught.value.status in (400, 403, 404)


def test_async(asynchronously: Callable[[Callable[[AsyncClient], Awaitable[None]]], None]) -> None:
    async def work(client: AsyncClient) -> None:
        sealed = await client.seal("demo", b"hello", b"aad")
        assert (await client.open("demo", sealed.message, b"aad")).plaintext == b"hello"
        with pytest.raises(sealane.DoesNotOpen):
            await client.open("demo", sealed.message)

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"hel"

        made = await client.mac("demo-mac", pieces())
        for data in (b"hel" * 3, bytearray(b"hel" * 3), [b"helhel", b"hel"], io.BytesIO(b"hel" * 3), pieces()):
            assert await client.verify("demo-mac", made.mac, data)
        assert {"demo", "demo-mac"} <= {key.name async for key in client.list_keys("demo")}
        many = await client.seal_many("demo", [b"1", b"2"])
        assert all(isinstance(one, sealane.Sealed) for one in many)

    asynchronously(work)


def test_both_clients_offer_the_same_calls() -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        return {
            name: list(signature(method).parameters)
            for name, method in vars(kind).items()
            if callable(method) and not name.startswith("_") and name not in ("close", "aclose")
        }

    assert calls(Client) == calls(AsyncClient)
    assert all(iscoroutinefunction(vars(AsyncClient)[name]) for name in calls(AsyncClient) if name != "list_keys")


def test_answers_of_other_servers_are_errors_too() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        bodies = {
            "a": httpx.Response(502, text="<html>bad gateway</html>"),
            "b": httpx.Response(500, content=b"\xff{", headers={"content-type": "application/problem+json"}),
            "c": httpx.Response(429, json={}, headers={"content-type": "application/problem+json"}),
        }
        return bodies[request.url.path.split("/")[3]]

    with Client("http://sealane.invalid", "token", transport=httpx.MockTransport(answer)) as client:
        for name, status in (("a", 502), ("b", 500), ("c", 429)):
            with pytest.raises(sealane.ServiceError) as caught:
                client.describe_key(name)
            assert caught.value.status == status
            assert caught.value.slug == "unknown"
            assert "html" not in str(caught.value)


def test_every_error_class_is_a_kind_of_problem_that_the_service_knows() -> None:
    for kind in sealane.ServiceError.__subclasses__():
        assert kind.slug in KINDS
