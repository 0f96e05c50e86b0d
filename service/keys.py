"""A key as a worker holds it: versions that unwrap when first used, and what can be done with them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from os import urandom
from typing import Final, Self, TypeAlias, TypeVar

import engine
from service.errors import DoesNotOpen, KeyDeleted, SealaneError, WrongKeyType
from service.formats import (
    FORMAT_MAC,
    FORMAT_MESSAGE,
    FORMAT_STREAM,
    HEADER_SIZE,
    MAC_NONCE_SIZE,
    MAC_SIZE,
    STREAM_ALGORITHM,
    BytesLike,
    header,
    parse_header,
    parse_mac,
    parse_sealed,
    parse_stream,
)
from service.leases import Lease
from service.master import MasterKey, Purpose, wipe

Plaintext: TypeAlias = BytesLike | list[bytes]
T = TypeVar("T")

MAC_TYPE: Final = "poly1305-xchacha20"
DEFAULT_TYPE: Final = "xchacha20-poly1305"
# The type whose nonces are too short to be drawn at random for ever.
LIMITED_TYPE: Final = "chacha20-poly1305"
KEY_TYPES: Final = (DEFAULT_TYPE, LIMITED_TYPE, MAC_TYPE)

ACTIVE: Final = "active"
PENDING: Final = "pending-deletion"
DESTROYED: Final = "destroyed"

_BODY_AT: Final = HEADER_SIZE + MAC_NONCE_SIZE


def version_purpose(name: str, type: str, version: int, uid: str) -> Purpose:
    """What a wrapped key version is bound to."""
    return Purpose("key", name, type, version, uid)


class KeyVersion:
    """One version. `aead` and `mac_key` are None until first used; `header` is what its messages begin with."""

    __slots__ = (
        "_master",
        "_master_id",
        "_purpose",
        "_wrapped",
        "aead",
        "created_at",
        "header",
        "lease",
        "mac_key",
        "version",
    )

    def __init__(
        self, purpose: Purpose, created_at: datetime, master: MasterKey, master_id: int, wrapped: bytes
    ) -> None:
        self.version = purpose.version
        self.created_at = created_at
        self.header = header(FORMAT_MAC if purpose.type == MAC_TYPE else FORMAT_MESSAGE, purpose.type, self.version)
        self.lease = Lease(purpose.name, self.version) if purpose.type == LIMITED_TYPE else None
        self.aead: engine.Aead | None = None
        self.mac_key: engine.MacKey | None = None
        self._purpose = purpose
        self._master = master
        self._master_id = master_id
        self._wrapped = wrapped

    @contextmanager
    def secret(self) -> Iterator[bytearray]:
        """The 32 bytes, wiped afterwards. StorageUnavailable if the row does not unwrap."""
        secret = self._master.unwrap(self._master_id, self._wrapped, self._purpose)
        try:
            yield secret
        finally:
            wipe(secret)

    # Two threads may both unwrap at first use; either object will do.

    def load_aead(self) -> engine.Aead:
        with self.secret() as secret:
            self.aead = engine.Aead(secret, self._purpose.type)
        return self.aead

    def load_mac_key(self) -> engine.MacKey:
        with self.secret() as secret:
            self.mac_key = engine.MacKey(secret)
        return self.mac_key


class Key:
    """One key at one revision; replaced as a whole when it changes, so a call that holds it sees no half change.

    Its methods are synchronous and may run in any thread.
    """

    __slots__ = (
        "_by_header",
        "_sealing",
        "_using",
        "created_at",
        "current",
        "delete_at",
        "name",
        "revision",
        "state",
        "type",
        "uid",
        "versions",
    )

    def __init__(
        self,
        name: str,
        uid: str,
        type: str,
        state: str,
        current: int,
        created_at: datetime,
        delete_at: datetime | None,
        revision: int,
        versions: dict[int, KeyVersion],
    ) -> None:
        self.name = name
        self.uid = uid
        self.type = type
        self.state = state
        self.current = current
        self.created_at = created_at
        self.delete_at = delete_at
        self.revision = revision
        self.versions = versions
        # Empty and None unless the key is in use: then the usual path needs no test of the state.
        usable = versions if state == ACTIVE else {}
        self._using = usable.get(current)
        self._sealing = self._using if type != MAC_TYPE else None
        self._by_header = {version.header: version for version in usable.values()}

    @property
    def seals(self) -> bool:
        """Whether it is a key that seals, and not one that makes MACs."""
        return self.type != MAC_TYPE

    def seal(self, plaintext: Plaintext, aad: BytesLike = b"") -> tuple[bytes, int]:
        """A sealed message and the key version. A list counts as its concatenation.

        WrongKeyType, KeyDeleted; NeedLease: `await keyring.ensure_lease(key)` and try again.
        """
        version = self._sealing or self._current(seals=True)
        if version.lease is not None:
            version.lease.take(1)
        return (version.aead or version.load_aead()).seal_framed(version.header, plaintext, aad), version.version

    def seal_many(self, items: Sequence[tuple[Plaintext, BytesLike]]) -> tuple[list[bytes], int]:
        """As `seal`, for (plaintext, aad) pairs, all under one version."""
        version = self._sealing or self._current(seals=True)
        if version.lease is not None:
            version.lease.take(len(items))
        return (version.aead or version.load_aead()).seal_framed_many(version.header, items), version.version

    def open(self, message: BytesLike, aad: BytesLike = b"") -> tuple[bytes, int]:
        """The plaintext and the version that sealed it.

        Malformed: no sealed message at all. DoesNotOpen: for any other reason; see `may_be_newer`. WrongKeyType,
        KeyDeleted.
        """
        version = self._by_header.get(bytes(message[:HEADER_SIZE]))
        if version is None or self.type == MAC_TYPE:
            self._current(seals=True)
            parse_sealed(message)
            raise DoesNotOpen
        try:
            plaintext = (version.aead or version.load_aead()).open_framed(message, HEADER_SIZE, aad)
        except engine.InvalidTag:
            raise DoesNotOpen from None
        except ValueError:
            # Too short, which `parse_sealed` says.
            parse_sealed(message)
            raise
        return plaintext, version.version

    def open_many(self, items: Iterable[tuple[BytesLike, BytesLike]]) -> list[tuple[bytes, int] | SealaneError]:
        """As `open`, for (message, aad) pairs; what goes wrong with one takes its place in the list."""
        results: list[tuple[bytes, int] | SealaneError] = []
        for message, aad in items:
            try:
                results.append(self.open(message, aad))
            except SealaneError as error:
                results.append(error)
        return results

    def ensure_seals(self) -> None:
        """WrongKeyType, KeyDeleted."""
        self._current(seals=True)

    def seal_stream(self, aad: BytesLike = b"") -> tuple[bytes, engine.ChunkedSealer, int]:
        """What a sealed stream begins with (64 bytes), the sealer of the rest, and the key version. Keys of either
        sealing type do, since each stream has a key of its own, derived. WrongKeyType, KeyDeleted."""
        version = self._sealing or self._current(seals=True)
        prefix = header(FORMAT_STREAM, STREAM_ALGORITHM, version.version)
        with version.secret() as secret:
            sealer = engine.ChunkedSealer(secret, prefix + aad)
        return prefix + sealer.header, sealer, version.version

    def open_stream(self, head: bytes, aad: BytesLike = b"") -> tuple[engine.ChunkedOpener, int]:
        """The opener of what follows `head`, a stream's first 64 bytes, and the key version. Errors as of `open`."""
        return self._incoming(engine.ChunkedOpener, head, aad)

    def verify_stream(self, head: bytes, aad: BytesLike = b"") -> tuple[engine.ChunkedVerifier, int]:
        """As `open_stream`, for a pass that only verifies."""
        return self._incoming(engine.ChunkedVerifier, head, aad)

    def _incoming(self, kind: Callable[..., T], head: bytes, aad: BytesLike) -> tuple[T, int]:
        self._current(seals=True)
        version = self.versions.get(parse_stream(head).version)
        if version is None:
            raise DoesNotOpen
        prefix = head[:HEADER_SIZE]
        try:
            with version.secret() as secret:
                return kind(secret, head[HEADER_SIZE:], prefix + aad), version.version
        except engine.InvalidTag:
            pass  # not kept as a context either, with the frames that it came through
        raise DoesNotOpen

    def may_be_newer(self, message: BytesLike) -> bool:
        """Whether a message or MAC that did not open names a version that a refresh might bring: one above all that
        are known here. Then `key = await keyring.newer(key)` and try once more."""
        try:
            parsed = parse_header(message)
        except SealaneError:
            return False
        return parsed.version > self.current

    def needs_lease(self, count: int = 1) -> bool:
        """Whether `await keyring.ensure_lease(key, count)` must come before sealing that many messages."""
        version = self._sealing
        return version is not None and version.lease is not None and version.lease.left < count

    def mac_start(self) -> "Mac":
        """A MAC to be fed. WrongKeyType, KeyDeleted."""
        return Mac(self._current(seals=False))

    def verify_start(self, mac: BytesLike) -> "Verifier":
        """A check of a MAC (48 bytes), to be fed the message. Malformed: no MAC at all. WrongKeyType, KeyDeleted.

        A version that is not known gives a verifier that says no; see `may_be_newer`.
        """
        self._current(seals=False)
        parse_mac(mac)
        return Verifier(self._by_header.get(bytes(mac[:HEADER_SIZE])), mac)

    def _current(self, *, seals: bool) -> KeyVersion:
        """The version in use, if the key serves this purpose and is in use at all."""
        if self.seals is not seals:
            wanted = "sealing" if self.seals else "MACs"
            raise WrongKeyType(f"a key of type {self.type} serves {wanted} only")
        if self._using is None:
            raise KeyDeleted("the key is scheduled for deletion and not for use; undo its deletion first")
        return self._using


class Mac:
    """A MAC in the making, over data fed in pieces of any size."""

    __slots__ = ("_poly", "_prefix", "version")

    def __init__(self, version: KeyVersion) -> None:
        nonce = urandom(MAC_NONCE_SIZE)
        self.version = version.version
        self._prefix = version.header + nonce
        self._poly = (version.mac_key or version.load_mac_key()).start(nonce)
        self._poly.update(version.header)

    def update(self, data: BytesLike) -> None:
        self._poly.update(data)

    def finish(self) -> bytes:
        """The 48 bytes: header, nonce, tag."""
        return self._prefix + self._poly.digest()

    def export_state(self) -> bytes:
        """Where it stands (98 bytes), for `from_state`. It holds the one-time key: to be kept wrapped, and never to
        be gone on from twice. ValueError once it is finished."""
        return self._prefix + self._poly.export_state()

    @classmethod
    def from_state(cls, state: BytesLike) -> Self:
        """Goes on from where `export_state` was called; needs no key."""
        mac = cls.__new__(cls)
        mac._prefix = bytes(state[:_BODY_AT])
        mac.version = parse_header(mac._prefix).version
        mac._poly = engine.Poly1305.from_state(state[_BODY_AT:])
        return mac


class Verifier:
    """A check of a MAC, over data fed in pieces of any size. `version` is None if it is not known."""

    __slots__ = ("_mac", "_poly", "_tag", "version")

    def __init__(self, version: KeyVersion | None, mac: BytesLike) -> None:
        self._poly: engine.Poly1305 | None = None
        self._mac = bytes(mac)
        self._tag = self._mac[_BODY_AT:]
        self.version = None if version is None else version.version
        if version is not None:
            self._poly = (version.mac_key or version.load_mac_key()).start(mac[HEADER_SIZE:_BODY_AT])
            self._poly.update(version.header)

    def update(self, data: BytesLike) -> None:
        if self._poly is not None:
            self._poly.update(data)

    def finish(self) -> bool:
        """Whether it is the MAC of what was fed; compared in constant time."""
        if self._poly is None:
            return False
        try:
            self._poly.verify(self._tag)
        except engine.InvalidTag:
            return False
        return True

    def export_state(self) -> bytes:
        """Where it stands (114 bytes, or 48 if it can only say no), for `from_state`; it holds the one-time key."""
        return self._mac + (self._poly.export_state() if self._poly is not None else b"")

    @classmethod
    def from_state(cls, state: BytesLike) -> Self:
        """Goes on from where `export_state` was called; needs no key."""
        verifier = cls(None, state[:MAC_SIZE])
        if len(state) > MAC_SIZE:
            verifier.version = parse_header(state).version
            verifier._poly = engine.Poly1305.from_state(state[MAC_SIZE:])
        return verifier
