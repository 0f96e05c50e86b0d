"""Tokens: who they stand for, what they may do, and when they stop."""

import asyncio
import hashlib
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, text

from service.access import ACTIONS, Access, Grant, Principal, new_token
from service.errors import KeyNotFound, Malformed, NotAllowed, NotAuthenticated, TokenNotFound
from service.storage import TokenRow


@pytest.mark.parametrize(
    ("written", "action", "key", "allowed"),
    [
        ("seal,open:orders-*", "seal", "orders-1", True),
        ("seal,open:orders-*", "seal", "orders-", True),
        ("seal,open:orders-*", "seal", "orders", False),
        ("seal,open:orders-*", "seal", "my-orders-1", False),
        ("seal,open:orders-*", "rotate", "orders-1", False),
        ("seal:orders", "seal", "orders", True),
        ("seal:orders", "seal", "orders1", False),
        ("seal", "seal", "anything", True),
        ("seal:a.c", "seal", "abc", False),
        ("seal:*-eu-*", "seal", "orders-eu-1", True),
        ("seal:*-eu-*", "seal", "orders-us-1", False),
        ("engine:nothing", "engine", "", True),
        ("seal:*", "engine", "", False),
        ("*", "tokens", "", True),
        ("*", "delete", "orders", True),
        ("*:orders", "delete", "other", False),
        ("seal", "SEAL", "orders", False),
    ],
)
def test_grants(written: str, action: str, key: str, allowed: bool) -> None:
    principal = Principal("id", "name", [Grant.parse(written)])
    for _ in range(2):
        assert principal.allows(action, key) is allowed
    if allowed:
        Access.require(principal, action, key)
    else:
        with pytest.raises(NotAllowed):
            Access.require(principal, action, key)


@pytest.mark.parametrize(
    "written", ["", ":x", "fly", "seal,fly:x", "seal:[a]", "seal:A", "seal:a?", "seal:" + "a" * 129]
)
def test_grants_that_are_none(written: str) -> None:
    with pytest.raises(Malformed, match="wanted"):
        Grant.parse(written)


@pytest.mark.parametrize("written", ["*:*", "open,seal:orders-*", "engine:*"])
def test_grants_are_written_as_they_are_read(written: str) -> None:
    assert str(Grant.parse(written)) == written
    assert Grant.parse("*").actions == ACTIONS


def test_many_stars_cost_no_more_than_few() -> None:
    principal = Principal("id", "name", [Grant.parse("seal:" + "*a" * 60 + "b")])
    started = time.process_time()
    assert not principal.allows("seal", "a" * 128)
    assert time.process_time() - started < 0.5


def test_remembered_decisions_are_bounded() -> None:
    principal = Principal("id", "name", [Grant.parse("seal:a*")])
    for number in range(10_000):
        principal.allows("seal", f"b{number}")
    assert len(principal._remembered) <= 4096
    assert principal.allows("seal", "a1")


def test_what_a_missing_key_answers() -> None:
    assert isinstance(Access.hide(Principal("id", "n", [Grant.parse("list:a*")]), "abc"), KeyNotFound)
    forbidden = Access.hide(Principal("id", "n", [Grant.parse("list:a*"), Grant.parse("seal:*")]), "other")
    with pytest.raises(NotAllowed) as caught:
        Access.require(Principal("id", "n", [Grant.parse("seal:a*")]), "seal", "other")
    assert type(forbidden) is NotAllowed
    assert forbidden.detail == caught.value.detail


def test_authenticate(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            token, info = await core.access.create("billing", [Grant.parse("seal:orders")], actor="test")
            for header in (
                f"Bearer {token}",
                f"bearer {token}",
                f"BEARER {token}".encode(),
                f"bEaReR   {token} ",
            ):
                principal = core.access.authenticate(header)
                assert (principal.token_id, principal.name) == (info.id, "billing")
                assert principal.actor == f"token:{info.id}"
            for header in (
                None,
                "",
                b"",
                "Bearer",
                "Bearer ",
                f"Basic {token}",
                token,
                f"Bearer{token}",
                f"Bearer\t{token}",
                f"Bearer {token}x",
                f"Bearer {token[:-1]}",
                f"Bearer {token.upper()}",
                f"Bearer {token} {token}",
                f"Bearer {new_token()[1]}",
                "Bearer é\udc80\0",
                b"Bearer \xff\x00",
            ):
                for call in (_later(core.access.authenticate), core.access.authenticate_slow):
                    with pytest.raises(NotAuthenticated) as caught:
                        await call(header)
                    assert caught.value.detail == "wanted a valid token: Authorization: Bearer TOKEN"

    asyncio.run(scenario())


def _later(function):
    async def call(*arguments):
        return function(*arguments)

    return call


def test_only_the_hash_is_stored_or_held(workers, backend) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            token, info = await core.access.create("billing", [Grant.parse("*")], actor="test")
            core.access.authenticate(f"Bearer {token}")
            with core.database.read() as session:
                row = session.get_one(TokenRow, info.id)
                assert row.hash == hashlib.sha256(token.encode()).digest()
                stored = "".join(
                    str(list(session.execute(text(f"SELECT * FROM {table}")))) for table in ("tokens", "audit")
                )
            secret = token.rpartition("_")[2]
            assert secret not in stored
            assert info.id in stored
            assert secret not in repr(vars(core.access)) + repr(info)

    asyncio.run(scenario())


def test_expiry(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            soon = datetime.now(UTC) + timedelta(seconds=0.3)
            token, info = await core.access.create("short", [Grant.parse("seal")], soon, actor="test")
            assert info.expires_at == soon
            core.access.authenticate(f"Bearer {token}")
            await asyncio.sleep(0.35)
            with pytest.raises(NotAuthenticated):
                core.access.authenticate(f"Bearer {token}")
            with pytest.raises(NotAuthenticated):
                await core.access.authenticate_slow(f"Bearer {token}")
            for wrong in (datetime.now(UTC) - timedelta(1), datetime.now() + timedelta(1)):
                with pytest.raises(Malformed, match="expiry"):
                    await core.access.create("short", [Grant.parse("seal")], wrong, actor="test")

    asyncio.run(scenario())


def test_names_and_grants_of_tokens(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            for name in ("", "a" * 129, "a\nb", "a\0"):
                with pytest.raises(Malformed, match="name"):
                    await core.access.create(name, [Grant.parse("seal")], actor="test")
            with pytest.raises(Malformed, match="grant"):
                await core.access.create("none", [], actor="test")

    asyncio.run(scenario())


def test_a_new_token_works_everywhere_at_once_and_a_revoked_one_nowhere_within_a_second(workers) -> None:
    async def scenario() -> None:
        async with workers(2) as (one, two):
            token, info = await one.access.create("billing", [Grant.parse("seal")], actor="test")
            header = f"Bearer {token}"
            assert (await two.access.authenticate_slow(header)).token_id == info.id
            two.access.authenticate(header)
            revoked = await one.access.revoke(info.id, actor="test")
            assert revoked.revoked_at is not None
            with pytest.raises(NotAuthenticated):
                one.access.authenticate(header)
            deadline = time.monotonic() + 1
            while True:
                try:
                    two.access.authenticate(header)
                except NotAuthenticated:
                    break
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            # Again is as good as once; and it stays revoked after a restart.
            assert (await two.access.revoke(info.id, actor="test")).revoked_at == revoked.revoked_at
            with pytest.raises(TokenNotFound):
                await two.access.revoke("nothing", actor="test")
        async with workers() as (core,):
            with pytest.raises(NotAuthenticated):
                await core.access.authenticate_slow(header)
            (listed,) = await core.access.list()
            assert listed.id == info.id
            assert listed.grants == (Grant.parse("seal"),)

    asyncio.run(scenario())


def test_only_a_token_that_may_be_new_costs_a_query(workers, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with workers(poll_interval=60) as (core,):
            token, _ = await core.access.create("billing", [Grant.parse("seal")], actor="test")
            queries = 0
            read = core.follower._read

            def counted():
                nonlocal queries
                queries += 1
                return read()

            monkeypatch.setattr(core.follower, "_read", counted)
            guess = new_token()[1]
            known_id = token[:25] + guess[25:]
            for refused in ("garbage", guess[:-1] + ("a" if guess[-1] != "a" else "b"), known_id):
                with pytest.raises(NotAuthenticated):
                    await core.access.authenticate_slow(f"Bearer {refused}")
            assert queries == 0
            with pytest.raises(NotAuthenticated):
                await core.access.authenticate_slow(f"Bearer {guess}")
            assert queries == 1

    asyncio.run(scenario())


def test_adopted_tokens(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            for _ in range(2):
                await core.access.adopt("my-dev-token", "development", Grant.parse("*"), actor="test")
            (info,) = await core.access.list()
            assert core.access.authenticate("Bearer my-dev-token").token_id == info.id
            with pytest.raises(Malformed):
                await core.access.adopt("my-dev-token", "development", Grant.parse("seal"), actor="test")
            await core.access.revoke(info.id, actor="test")
            with pytest.raises(Malformed):
                await core.access.adopt("my-dev-token", "development", Grant.parse("*"), actor="test")
            with core.database.read() as session:
                assert len(list(session.scalars(select(TokenRow)))) == 1

    asyncio.run(scenario())
