"""The JSON of the management calls."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from service.access import Grant, TokenInfo
from service.keyring import DEFAULT_TYPE, KeyInfo

KeyType = Literal["xchacha20-poly1305", "chacha20-poly1305", "poly1305-xchacha20"]
Action = Literal["seal", "open", "mac", "verify", "list", "create", "rotate", "delete", "engine", "tokens"]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class NewKey(_Input):
    """A key to be made."""

    type: KeyType = Field(
        default=DEFAULT_TYPE,
        description="Two types seal; `poly1305-xchacha20` makes MACs. A `chacha20-poly1305` key seals at most 2^32 "
        "messages with each version.",
    )


class Version(BaseModel):
    """A version of a key."""

    version: int = Field(ge=1, examples=[1])
    created_at: datetime


class Key(BaseModel):
    """What may be told of a key; never its material."""

    name: str = Field(examples=["demo"])
    type: KeyType
    state: Literal["active", "pending-deletion", "destroyed"]
    current_version: int = Field(ge=1, description="The version that new seals and MACs use.", examples=[1])
    versions: list[Version]
    created_at: datetime
    delete_at: datetime | None = Field(description="When it will be destroyed, if it is scheduled for deletion.")

    @classmethod
    def of(cls, info: KeyInfo) -> Key:
        return cls.model_validate(info, from_attributes=True)


class Keys(BaseModel):
    """A page of keys in order of their names."""

    keys: list[Key]
    next: str | None = Field(description="The `after` of the next page; null on the last.")


class GrantModel(_Input):
    """Some actions on the keys whose names match a pattern."""

    actions: list[Action] = Field(min_length=1, examples=[["seal", "open"]])
    keys: str = Field(
        default="*", description="A key name, in which `*` stands for any characters.", examples=["orders-*"]
    )


class NewToken(_Input):
    """A token to be made."""

    name: str = Field(min_length=1, max_length=128, description="For people.", examples=["orders service"])
    grants: list[GrantModel] = Field(min_length=1, max_length=100)
    # Strict mode alone would refuse a date in a JSON string that came through Python's parser.
    expires_at: Annotated[AwareDatetime | None, Field(strict=False)] = Field(
        default=None, description="RFC 3339 with its offset; null for a token that does not expire."
    )
    expires_in_seconds: int | None = Field(
        default=None, ge=1, le=10 * 366 * 86400, description="Instead of `expires_at`.", examples=[86400]
    )

    def grant_list(self) -> list[Grant]:
        return [Grant(frozenset(grant.actions), grant.keys) for grant in self.grants]


class Token(BaseModel):
    """What is known of a token; never the token."""

    id: str
    name: str
    grants: list[GrantModel]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    @classmethod
    def of(cls, info: TokenInfo) -> Token:
        return cls.model_validate(_members(info))


class MadeToken(Token):
    """A token, shown this once."""

    token: str = Field(description="Send it as `Authorization: Bearer TOKEN`. It can't be shown again.")

    @classmethod
    def made(cls, token: str, info: TokenInfo) -> MadeToken:
        return cls.model_validate({"token": token, **_members(info)})


class Tokens(BaseModel):
    """All tokens, oldest first, the revoked and expired among them."""

    tokens: list[Token]


class EngineInfo(BaseModel):
    """Which code computes, on what."""

    backend: str = Field(examples=["native"])
    kernel: str = Field(examples=["avx2"])
    kernels: list[str] = Field(description="Usable here, best first.")
    backends: list[str]
    cpu_features: list[str]
    selftest: dict[str, str] = Field(description="For each kernel and backend, ok or what is wrong with it.")


class Health(BaseModel):
    """Whether this worker is alive, or ready to serve."""

    status: Literal["ok", "degraded"]
    checks: dict[str, str] = Field(description="What was looked at, and ok or what is wrong.")


class ProblemModel(BaseModel):
    """A problem as RFC 9457 describes it. It never repeats anything of the request."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(pattern="^urn:sealane:problem:[a-z-]+$", description="A stable name of the problem.")
    title: str
    status: int = Field(ge=400, le=599)
    detail: str


def _members(info: TokenInfo) -> dict[str, object]:
    grants = [GrantModel.model_construct(actions=sorted(grant.actions), keys=grant.pattern) for grant in info.grants]
    return {
        "id": info.id,
        "name": info.name,
        "grants": grants,
        "created_at": info.created_at,
        "expires_at": info.expires_at,
        "revoked_at": info.revoked_at,
    }
