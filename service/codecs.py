"""JSON of the message calls: decoding that is strict, and fast for what clients usually send.

JSON decoders take the last of duplicate keys, and base64 decoders take spellings that RFC 4648 rules out. What msgspec
decoded is therefore encoded again: if that gives the very bytes that came (white space aside), there was no second
spelling and no second key. Anything else goes the slow way, which looks at every member and gives each item of a batch
its own problem.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from service.errors import Malformed
from service.formats import decode_base64
from service.problems import Problem, malformed

# `gc=False` below: these hold bytes and numbers only, so the garbage collector need not know of them.
Base64 = Annotated[bytes, Meta(description="Standard base64 with padding, one spelling per value.")]
_AAD_TEXT = "Data to authenticate but not encrypt; what sealed it must be given again to open."
_AAD = Annotated[bytes, Meta(description=_AAD_TEXT)]
KeyVersionNumber = Annotated[int, Meta(ge=1, le=2**32 - 1, description="The version of the key that was used.")]


class SealItem(Struct, forbid_unknown_fields=True, gc=False):
    """Something to seal."""

    plaintext: Base64
    aad: _AAD | UnsetType = UNSET


class OpenItem(Struct, forbid_unknown_fields=True, gc=False):
    """Something to open."""

    sealed: Base64
    aad: _AAD | UnsetType = UNSET


class MacItem(Struct, forbid_unknown_fields=True, gc=False):
    """A message to authenticate."""

    message: Base64


class VerifyItem(Struct, forbid_unknown_fields=True, gc=False):
    """A message and the MAC that it is said to have."""

    message: Base64
    mac: Base64


class SealBatch(Struct, forbid_unknown_fields=True):
    """Many to seal in one call."""

    items: list[SealItem]


class OpenBatch(Struct, forbid_unknown_fields=True):
    """Many to open in one call."""

    items: list[OpenItem]


class MacBatch(Struct, forbid_unknown_fields=True):
    """Many messages to authenticate in one call."""

    items: list[MacItem]


class VerifyBatch(Struct, forbid_unknown_fields=True):
    """Many MACs to verify in one call."""

    items: list[VerifyItem]


class SealAnswer(Struct, gc=False):
    """A sealed message."""

    sealed: Base64
    key_version: KeyVersionNumber


class OpenAnswer(Struct, gc=False):
    """An opened message."""

    plaintext: Base64
    key_version: KeyVersionNumber


class MacAnswer(Struct, gc=False):
    """A MAC: header, nonce and tag, 48 bytes."""

    mac: Base64
    key_version: KeyVersionNumber


class VerifyAnswer(Struct, gc=False):
    """Whether the MAC is that of the message under this key."""

    valid: bool


class ProblemMembers(Struct):
    """A problem as RFC 9457 describes it."""

    type: Annotated[str, Meta(pattern="^urn:sealane:problem:[a-z-]+$", description="A stable name of the problem.")]
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: str


class ItemProblem(Struct):
    """In a batch, what took the place of the answer to an item."""

    problem: ProblemMembers


encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder().encode
_compact: Final = msgspec.json.format


def item_problem(problem: Problem) -> ItemProblem:
    """`problem` in the place of an item's answer."""
    return ItemProblem(ProblemMembers(problem.kind.type, problem.title, problem.status, problem.detail))


class _Repeated:
    """Takes the place of an object in which a key comes twice."""


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    members = dict(pairs)
    return members if len(members) == len(pairs) else _Repeated()


def strict_json(body: bytes | bytearray) -> Any:
    """The value in `body`, with a `_Repeated` for each object that has a key twice; Problem if it is not JSON."""
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_no_constant)
    except RecursionError:
        raise malformed("wanted JSON that is not so deeply nested") from None
    except ValueError:
        raise malformed("wanted JSON (RFC 8259) in UTF-8") from None


def _no_constant(_: str) -> Any:
    raise ValueError


def check_unique(value: Any) -> None:
    """Problem if any object within `value`, which `strict_json` gave, has a key twice."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, _Repeated):
            raise malformed("wanted each key only once in an object")
        if isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)


T = TypeVar("T", bound=Struct)


class Codec(Generic[T]):
    """Decodes `{...}` of one call, an `item`, or `{"items": [...]}`, a `batch` of them."""

    def __init__(self, item: type[T], batch: type[Struct]) -> None:
        self.item = item
        self.batch = batch
        self._decode_item = msgspec.json.Decoder(item).decode
        self._decode_batch: Callable[[bytes | bytearray], Any] = msgspec.json.Decoder(batch).decode
        self._fields = item.__struct_fields__
        self._required = frozenset(self._fields) - {"aad"}
        self._wanted = (
            "wanted an object with " + " and ".join(sorted(self._required)) + (", aad if any" if "aad" in self._fields
            else "") + ", or with items, a list of such objects"
        )  # fmt: skip

    def decode(self, body: bytes | bytearray, max_items: int) -> T | list[T | Problem]:
        """The item, or the items each of which is good or a Problem. Problem if it is neither or too many."""
        # RecursionError: msgspec's own answer to a depth bomb.
        try:
            item = self._decode_item(body)
            if _faithful(item, body):
                return item
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            try:
                batch = self._decode_batch(body)
                if len(batch.items) <= max_items and _faithful(batch, body):
                    items: list[T | Problem] = batch.items
                    return items
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                pass
        return self._strictly(body, max_items)

    def _strictly(self, body: bytes | bytearray, max_items: int) -> T | list[T | Problem]:
        value = strict_json(body)
        if isinstance(value, _Repeated):
            raise malformed("wanted each key only once in an object")
        if not isinstance(value, dict):
            raise malformed(self._wanted)
        if "items" not in value:
            return self._item(value)
        if len(value) > 1 or not isinstance(value["items"], list):
            raise malformed(self._wanted)
        if len(value["items"]) > max_items:
            raise Problem("batch-too-large", f"a batch may have at most {max_items} items", limit=max_items)
        return [self._item_or_problem(item) for item in value["items"]]

    def _item_or_problem(self, value: Any) -> T | Problem:
        try:
            return self._item(value)
        except Problem as problem:
            return problem

    def _item(self, value: Any) -> T:
        if isinstance(value, _Repeated):
            raise malformed("wanted each key only once in an object")
        if not isinstance(value, dict):
            raise malformed(self._wanted)
        for name in self._required:
            if name not in value:
                raise malformed(f"wanted the member {name}")
        if not value.keys() <= set(self._fields):
            raise malformed("wanted no other members than " + ", ".join(self._fields))
        members: dict[str, bytes] = {}
        for name, text in value.items():
            if not isinstance(text, str):
                raise malformed(f"{name}: wanted a string")
            try:
                members[name] = decode_base64(text)
            except Malformed as error:
                raise malformed(f"{name}: {error.detail}") from None
        return self.item(**members)


def _faithful(value: Struct, body: bytes | bytearray) -> bool:
    """Whether `body` is the one compact spelling of `value`, or that with white space between its tokens."""
    spelling = encode(value)
    return spelling == body or (len(body) > len(spelling) and _compact(bytes(body), indent=-1) == spelling)


SEAL: Final = Codec(SealItem, SealBatch)
OPEN: Final = Codec(OpenItem, OpenBatch)
MAC: Final = Codec(MacItem, MacBatch)
VERIFY: Final = Codec(VerifyItem, VerifyBatch)
