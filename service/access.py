"""Tokens and what they may do.

A token is `sealane_<id>_<secret><check>`: 16, 52 and 7 characters of lower-case base32, 80 random bits that name it,
256 that prove it, and a CRC-32 by which typing errors and secret scanners are served without a query. The storage
holds its SHA-256 alone; that needs no salt and no slow hash, because nobody can guess 256 random bits.
"""

import base64
import re
import secrets
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import translate
from hashlib import sha256
from time import monotonic, time
from typing import Final, Self

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.audit import AuditTrail
from service.errors import (
    KeyNotFound,
    Malformed,
    NotAllowed,
    NotAuthenticated,
    SealaneError,
    TokenNotFound,
)
from service.follower import Follower
from service.storage import Database, TokenRow

KEY_ACTIONS: Final = frozenset({"seal", "open", "mac", "verify", "list", "create", "rotate", "delete"})
# These ask for no key: any grant that names them will do, whatever its pattern.
GLOBAL_ACTIONS: Final = frozenset({"engine", "tokens"})
ACTIONS: Final = KEY_ACTIONS | GLOBAL_ACTIONS

_PATTERN = re.compile(r"[a-z0-9._*-]{1,128}")
_TOKEN = re.compile(rb"sealane_([a-z2-7]{16})_([a-z2-7]{52})([a-z2-7]{7})")
_WANTED = "wanted a valid token: Authorization: Bearer TOKEN"
# More decisions than this are not remembered per token, so that a caller who makes names up can't fill memory.
_REMEMBERED = 4096


@dataclass(frozen=True)
class Grant:
    """Some actions on the keys whose names match `pattern`, in which `*` stands for any characters.

    Malformed if an action is unknown or the pattern could match no key name.
    """

    actions: frozenset[str]
    pattern: str = "*"

    def __post_init__(self) -> None:
        if not self.actions or not self.actions <= ACTIONS:
            raise Malformed(f"wanted actions out of: {' '.join(sorted(ACTIONS))}")
        if not _PATTERN.fullmatch(self.pattern):
            raise Malformed("wanted a key pattern of 1 to 128 characters out of a-z 0-9 . _ - and * for any")

    @classmethod
    def parse(cls, text: str) -> Self:
        """`seal,open:orders-*`; without a pattern for every key, and `*` for every action."""
        actions, _, pattern = text.partition(":")
        names = ACTIONS if actions == "*" else frozenset(actions.split(","))
        return cls(names, pattern or "*")

    def __str__(self) -> str:
        return f"{'*' if self.actions == ACTIONS else ','.join(sorted(self.actions))}:{self.pattern}"


class Principal:
    """Who a token stands for. Made anew when its token changes, so its remembered decisions never go stale."""

    __slots__ = ("_grants", "_remembered", "expires_at", "grants", "name", "token_id")

    def __init__(self, token_id: str, name: str, grants: Iterable[Grant], expires_at: datetime | None = None) -> None:
        self.token_id = token_id
        self.name = name
        self.grants = tuple(grants)
        self.expires_at = expires_at.timestamp() if expires_at else float("inf")
        # fnmatch's regular expression does not backtrack over stars, as `.*` joined by hand would.
        self._grants = [(grant.actions, re.compile(translate(grant.pattern)).match) for grant in self.grants]
        self._remembered: dict[tuple[str, str], bool] = {}

    @property
    def actor(self) -> str:
        """How the audit trail names it."""
        return f"token:{self.token_id}"

    def allows(self, action: str, key_name: str = "") -> bool:
        """Whether it may do `action` with this key (or at all, for the actions without a key)."""
        allowed = self._remembered.get((action, key_name))
        if allowed is None:
            allowed = self._decide(action, key_name)
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[action, key_name] = allowed
        return allowed

    def _decide(self, action: str, key_name: str) -> bool:
        for actions, matches in self._grants:
            if action in actions and (action in GLOBAL_ACTIONS or matches(key_name)):
                return True
        return False


@dataclass(frozen=True)
class TokenInfo:
    """What is known of a token; never the token."""

    id: str
    name: str
    grants: tuple[Grant, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


_Rows = list[TokenRow]
_Infos = list[TokenInfo]


class Access:
    """All tokens, in memory by their hash. It keeps no raw token, not even for a moment's cache."""

    def __init__(self, database: Database, follower: Follower, audit: AuditTrail) -> None:
        self._database = database
        self._follower = follower
        self._audit = audit
        self._by_hash: dict[bytes, Principal] = {}
        self._hash_of: dict[str, bytes] = {}
        follower.add(self)

    def authenticate(self, authorization: bytes | str | None) -> Principal:
        """Who sends this `Authorization` header. Cheap: a SHA-256 and a look-up.

        NotAuthenticated: the same for a malformed, unknown, expired or revoked token. StorageUnavailable: revocations
        have not been heard of for too long.
        """
        if monotonic() > self._follower.fresh_until:
            self._follower.check_fresh()
        # The usual spelling first; any other goes the longer way round.
        principal = None
        if isinstance(authorization, bytes) and authorization[:7] == b"Bearer ":
            principal = self._by_hash.get(sha256(authorization[7:]).digest())
        if principal is None:
            principal = self._by_hash.get(sha256(_bearer(authorization)).digest())
        if principal is None or principal.expires_at <= time():
            raise NotAuthenticated(_WANTED)
        return principal

    async def authenticate_slow(self, authorization: bytes | str | None) -> Principal:
        """As `authenticate`; asks the storage for a token it does not know, made a moment ago by another worker.

        As `authenticate`; StorageUnavailable if that question can't be asked."""
        try:
            return self.authenticate(authorization)
        except NotAuthenticated:
            if not self._may_be_new(_bearer(authorization)):
                raise
        # A lost storage is said to be lost: a 401 would make a client throw a good token away.
        await self._follower.refresh()
        return self.authenticate(authorization)

    @staticmethod
    def require(principal: Principal, action: str, key_name: str = "") -> None:
        """NotAllowed unless the principal may do it."""
        if not principal.allows(action, key_name):
            raise NotAllowed

    @staticmethod
    def hide(principal: Principal, key_name: str) -> SealaneError:
        """What to answer for a key that does not exist: KeyNotFound to those who may list it, else NotAllowed."""
        return KeyNotFound() if principal.allows("list", key_name) else NotAllowed()

    async def create(
        self,
        name: str,
        grants: Iterable[Grant],
        expires_at: datetime | None = None,
        *,
        actor: str,
        request_id: str | None = None,
        token: str | None = None,
    ) -> tuple[str, TokenInfo]:
        """A new token, shown this once, and what is known of it. In force here at once, elsewhere within a second.

        `name`: 1 to 128 printable characters. `token`: use this one instead of a random one (development).
        Malformed, StorageUnavailable.
        """
        if not 1 <= len(name) <= 128 or not name.isprintable():
            raise Malformed("wanted a token name of 1 to 128 printable characters")
        if expires_at is not None and (expires_at.tzinfo is None or expires_at.timestamp() <= time()):
            raise Malformed("wanted an expiry in the future, with its time zone")
        listed = tuple(grants)
        if not listed:
            raise Malformed("wanted at least one grant")
        token_id, made = new_token()
        row = TokenRow(
            id=token_id,
            name=name,
            hash=_hash(token or made),
            grants=[{"actions": sorted(grant.actions), "keys": grant.pattern} for grant in listed],
            created_at=datetime.now(UTC),
            expires_at=expires_at,
            revoked_at=None,
        )
        await self._database.call(self._insert, row, actor, request_id)
        self._take(row)
        return token or made, _info(row)

    async def adopt(self, token: str, name: str, grant: Grant, *, actor: str) -> None:
        """Makes sure that `token`, chosen by somebody, is one with this grant: for development and tests.

        Malformed if it was revoked, or exists with other grants.
        """
        known = self._by_hash.get(_hash(token))
        if known is None:
            await self.create(name, [grant], actor=actor, token=token)
        elif grant not in known.grants:
            raise Malformed("the token exists with other grants; choose another one")

    async def revoke(self, token_id: str, *, actor: str, request_id: str | None = None) -> TokenInfo:
        """Refused here at once, elsewhere within a second. Twice is as good as once. TokenNotFound."""
        row = await self._database.call(self._revoke, token_id, actor, request_id)
        self._take(row)
        return _info(row)

    async def list(self) -> _Infos:
        """All tokens, oldest first, the revoked and expired among them."""
        rows = await self._database.call(self._all)
        return [_info(row) for row in rows]

    def read(self, session: Session, since: int) -> _Rows:
        return list(session.scalars(select(TokenRow).where(TokenRow.revision > since)))

    def apply(self, rows: _Rows, *, whole: bool) -> None:
        if whole:
            self._by_hash.clear()
            self._hash_of.clear()
        for row in rows:
            self._hash_of[row.id] = row.hash
            if row.revoked_at is None:
                self._by_hash[row.hash] = Principal(row.id, row.name, _grants(row), row.expires_at)
            else:
                self._by_hash.pop(row.hash, None)

    def _take(self, row: TokenRow) -> None:
        self.apply([row], whole=False)
        self._follower.heard(row.revision)

    def _may_be_new(self, token: bytes) -> bool:
        """Whether a query could find it: well-formed, and not of a token that is known already."""
        found = _TOKEN.fullmatch(token)
        if found is None or found[1].decode() in self._hash_of:
            return False
        return _check(token[:-7]) == found[3]

    def _insert(self, row: TokenRow, actor: str, request_id: str | None) -> None:
        with self._database.change() as (session, revision):
            if session.scalar(select(TokenRow.id).where(TokenRow.hash == row.hash)) is not None:
                raise Malformed("this token was used before; choose another one")
            row.revision = revision
            session.add(row)
            detail = {"name": row.name, "grants": row.grants, "expires_at": _iso(row.expires_at)}
            self._audit.change(session, revision, actor, "token.create", f"token:{row.id}", None, detail, request_id)

    def _revoke(self, token_id: str, actor: str, request_id: str | None) -> TokenRow:
        with self._database.change() as (session, revision):
            row = session.get(TokenRow, token_id)
            if row is None:
                raise TokenNotFound
            again = row.revoked_at is not None
            row.revoked_at = row.revoked_at or datetime.now(UTC)
            row.revision = revision
            self._audit.change(
                session, revision, actor, "token.revoke", f"token:{row.id}", None, {"again": again}, request_id
            )
            return row

    def _all(self) -> _Rows:
        with self._database.read() as session:
            return list(session.scalars(select(TokenRow).order_by(TokenRow.created_at, TokenRow.id)))


def _bearer(authorization: bytes | str | None) -> bytes:
    if authorization is None:
        raise NotAuthenticated(_WANTED)
    raw = authorization.encode("utf-8", "surrogatepass") if isinstance(authorization, str) else authorization
    # The scheme's case does not matter (RFC 9110 section 11.1).
    if raw[:7].lower() != b"bearer ":
        raise NotAuthenticated(_WANTED)
    return raw[7:].strip(b" ")


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=").lower()


def _check(token: bytes) -> bytes:
    return _base32(zlib.crc32(token).to_bytes(4)).encode()


def new_token() -> tuple[str, str]:
    token_id = _base32(secrets.token_bytes(10))
    body = f"sealane_{token_id}_{_base32(secrets.token_bytes(32))}"
    return token_id, body + _check(body.encode()).decode()


def _grants(row: TokenRow) -> tuple[Grant, ...]:
    """The grants of a row, without actions that only a newer release knows."""
    known = [(frozenset(stored["actions"]) & ACTIONS, str(stored["keys"])) for stored in row.grants]
    return tuple(Grant(actions, pattern) for actions, pattern in known if actions)


def _info(row: TokenRow) -> TokenInfo:
    return TokenInfo(row.id, row.name, _grants(row), row.created_at, row.expires_at, row.revoked_at)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
