"""What a backend must offer, and the types that its objects answer to."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer

    #: One buffer, or several that count as their concatenation.
    Buffers: TypeAlias = Buffer | list[bytes] | list[bytearray] | list[memoryview] | list[Buffer]
    Plaintext: TypeAlias = Buffers

KEY_SIZE = 32
TAG_SIZE = 16
HCHACHA20_NONCE_SIZE = 16
CHACHA20_NONCE_SIZE = 12
XCHACHA20_NONCE_SIZE = 24
#: Nonce size in bytes of each AEAD algorithm.
NONCE_SIZES = {"xchacha20-poly1305": XCHACHA20_NONCE_SIZE, "chacha20-poly1305": CHACHA20_NONCE_SIZE}
DEFAULT_ALGORITHM = "xchacha20-poly1305"
#: Longest plaintext under one nonce: 2^32 blocks of 64 bytes, less the one that makes the Poly1305 key (RFC 8439, 2.8).
MAX_PLAINTEXT_SIZE = (2**32 - 1) * 64
#: Plaintext of every chunk of a stream but the last, and the most chunks (c2sp.org/chunked-encryption).
CHUNK_SIZE = 16 * 1024
MAX_CHUNKS = 2**38

# The three classes are abstract only so that native types can register as subclasses. Their methods are not marked
# abstract, because mypy would then refuse ``Aead(key)``, which is how everybody makes one.


class Aead(ABC):  # noqa: B024 - see above
    """Authenticated encryption under one 32-byte key; immutable, so threads may share it.

    ``Aead(key, algorithm)`` makes an object of the backend in use. ``algorithm`` is "xchacha20-poly1305"
    (draft-irtf-cfrg-xchacha-03; 24-byte nonces, safe to draw at random) or "chacha20-poly1305" (RFC 8439;
    12-byte nonces). Arguments may be any contiguous buffer. A wrong type raises ``TypeError``; a wrong length, or a
    plaintext of more than 2^38 - 64 bytes, raises ``ValueError``.
    """

    __slots__ = ()

    def __new__(cls, key: Buffer, algorithm: str = DEFAULT_ALGORITHM) -> Aead:
        if cls is Aead:
            return selection.backend.aead(key, algorithm)
        return super().__new__(cls)

    @property
    def algorithm(self) -> str:
        """The algorithm's name, as it was given."""
        raise NotImplementedError

    @property
    def nonce_size(self) -> int:
        """Bytes in a nonce: 24 or 12."""
        raise NotImplementedError

    def seal(self, nonce: Buffer, plaintext: Buffer, aad: Buffer = b"") -> bytes:
        """Encrypt: ciphertext, as long as the plaintext, and then the 16-byte tag. A nonce must never repeat."""
        raise NotImplementedError

    def open(self, nonce: Buffer, sealed: Buffer, aad: Buffer = b"") -> bytes:
        """Undo ``seal``. Raises ``InvalidTag`` if it does not verify, ``ValueError`` if shorter than a tag."""
        raise NotImplementedError

    def seal_into(self, nonce: Buffer, plaintext: Buffer, out: Buffer, aad: Buffer = b"") -> int:
        """``seal`` into the writable buffer ``out`` of at least len(plaintext) + 16 bytes; returns the bytes written.

        ``out`` may start exactly where ``plaintext`` does; any other overlap raises ``ValueError``.
        """
        raise NotImplementedError

    def open_into(self, nonce: Buffer, sealed: Buffer, out: Buffer, aad: Buffer = b"") -> int:
        """``open`` into ``out`` of at least len(sealed) - 16 bytes; returns the bytes written.

        Overlaps as in ``seal_into``. When it raises ``InvalidTag`` nothing of the plaintext is in ``out``.
        """
        raise NotImplementedError

    def seal_framed(self, prefix: Buffer, plaintext: Plaintext, aad: Buffer = b"") -> bytes:
        """prefix || nonce from the operating system || ciphertext || tag, authenticating prefix || aad too.

        A list of buffers as ``plaintext`` counts as their concatenation.
        """
        raise NotImplementedError

    def seal_framed_many(self, prefix: Buffer, items: Sequence[tuple[Plaintext, Buffer]]) -> list[bytes]:
        """``seal_framed`` for each (plaintext, aad) pair; all of them or, on an error, none."""
        raise NotImplementedError

    def open_framed(self, message: Buffer, prefix_size: int, aad: Buffer = b"") -> bytes:
        """Undo ``seal_framed`` for a prefix of ``prefix_size`` bytes.

        Raises ``InvalidTag``, and ``ValueError`` if shorter than prefix, nonce and tag.
        """
        raise NotImplementedError

    def seal_chunks(self, base_nonce: Buffer, index: int, plaintext: Buffers, last: bool = False) -> bytes:
        """Chunks number ``index`` and on of a stream (c2sp.org/chunked-encryption), each with its 16-byte tag.

        A whole number of chunks of 16 KiB or, where that is the ``last`` of the stream, any length: what is beyond
        whole chunks, if only nothing, makes one shorter chunk. The nonce of chunk ``k`` is ``base_nonce`` xor ``k``,
        big-endian; there is no AAD. Raises ``ValueError`` for other lengths and for chunks from 2^38 on.
        """
        raise NotImplementedError

    def open_chunks(self, base_nonce: Buffer, index: int, sealed: Buffers, last: bool = False) -> bytes:
        """Undo ``seal_chunks``. Raises ``InvalidTag``, and returns nothing, if one of the chunks does not verify."""
        raise NotImplementedError

    def verify_chunks(self, base_nonce: Buffer, index: int, sealed: Buffers, last: bool = False) -> None:
        """Raise what ``open_chunks`` would, without decrypting: cheaper where nothing may be released yet."""
        raise NotImplementedError


class Poly1305(ABC):  # noqa: B024 - see above
    """One Poly1305 tag (RFC 8439, 2.5) under a 32-byte key that must never be used for a second message.

    Threads may share it: each update happens as a whole. After ``digest`` or ``verify``, ``update`` and
    ``export_state`` raise ``ValueError``.
    """

    __slots__ = ()

    def __new__(cls, one_time_key: Buffer) -> Poly1305:
        if cls is Poly1305:
            return selection.backend.poly1305(one_time_key)
        return super().__new__(cls)

    @classmethod
    def from_state(cls, state: Buffer) -> Poly1305:
        """Go on from what ``export_state`` gave, whichever backend, kernel or machine gave it.

        Raises ``ValueError`` unless it is 66 bytes of a known version in canonical form.
        """
        return selection.backend.poly1305_from_state(state)

    def update(self, data: Buffer) -> None:
        """Append data of any length to the message."""
        raise NotImplementedError

    def digest(self) -> bytes:
        """Finish: the 16-byte tag, the same one each time."""
        raise NotImplementedError

    def verify(self, tag: Buffer) -> None:
        """Finish, and raise ``InvalidTag`` unless ``tag``, 16 bytes, is the tag; compared in constant time."""
        raise NotImplementedError

    def export_state(self) -> bytes:
        """The 66 bytes that ``from_state`` takes. They hold the key, so guard them like it."""
        raise NotImplementedError


class MacKey(ABC):  # noqa: B024 - see above
    """A long-lived 32-byte key for Poly1305-XChaCha20; immutable, so threads may share it."""

    __slots__ = ()

    def __new__(cls, key: Buffer) -> MacKey:
        if cls is MacKey:
            return selection.backend.mac_key(key)
        return super().__new__(cls)

    def start(self, nonce: Buffer) -> Poly1305:
        """Begin a MAC whose one-time key is the first half of block 0 of XChaCha20(key, nonce); nonce: 24 bytes."""
        raise NotImplementedError


class Backend(Protocol):
    """One implementation of everything above, found through the entry-point group ``sealane.backends``."""

    @property
    def name(self) -> str:
        """The name by which ``engine.use`` knows it."""

    def kernels(self) -> tuple[str, ...]:
        """Kernels that this machine can run, best first; none if the backend has no choice to offer."""

    def kernel(self) -> str:
        """The kernel that new objects get; the backend's name if it has no kernels."""

    def use_kernel(self, name: str) -> None:
        """Give new objects this one of ``kernels()``."""

    def cpu_features(self) -> tuple[str, ...]:
        """What the CPU and the operating system both allow, as far as the backend looks."""

    def aead(self, key: Buffer, algorithm: str) -> Aead: ...

    def poly1305(self, one_time_key: Buffer) -> Poly1305: ...

    def poly1305_from_state(self, state: Buffer) -> Poly1305: ...

    def mac_key(self, key: Buffer) -> MacKey: ...

    def chacha20_xor(self, key: Buffer, nonce: Buffer, data: Buffer, counter: int) -> bytes: ...

    def hchacha20(self, key: Buffer, nonce: Buffer) -> bytes: ...


class _Selection:
    """Where the registry writes down the backend that new objects come from."""

    __slots__ = ("backend",)
    backend: Backend


selection = _Selection()
