"""Sealed streams: C2SP chunked-encryption v1 (c2sp.org/chunked-encryption) over any backend.

The instance is SHA-512 with AEAD_CHACHA20_POLY1305. A sealed stream is salt (24) || commitment (32) || chunks. Every
chunk but the last holds 16 KiB and its tag; the last is always shorter and may be empty, so that a stream cut off at
any place, reordered or continued does not open. Chunk ``k`` is sealed under the stream's base nonce xor ``k``.
"""

from __future__ import annotations

import hmac
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from engine.backends import arguments
from engine.errors import InvalidTag
from engine.protocol import CHACHA20_NONCE_SIZE, CHUNK_SIZE, KEY_SIZE, MAX_CHUNKS, TAG_SIZE, Aead

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from engine.protocol import Buffers

SALT_SIZE = 24
COMMITMENT_SIZE = 32
#: salt || commitment, before the first chunk.
HEADER_SIZE = SALT_SIZE + COMMITMENT_SIZE
#: A whole chunk with its tag.
SEALED_CHUNK_SIZE = CHUNK_SIZE + TAG_SIZE
#: The last of 2^38 chunks is short.
MAX_PLAINTEXT_SIZE = MAX_CHUNKS * CHUNK_SIZE - 1

_INFO = b"c2sp.org/chunked-encryption@v1+AEAD_CHACHA20_POLY1305\0"
_HASH = "sha512"
_HASH_SIZE = 64
_Result = TypeVar("_Result")


def chunk_count(plaintext_size: int) -> int:
    """How many chunks seal so many bytes: the last one is shorter than 16 KiB, so that it is there even if empty."""
    return arguments.integer("plaintext_size", plaintext_size, 0, MAX_PLAINTEXT_SIZE) // CHUNK_SIZE + 1


def sealed_size(plaintext_size: int) -> int:
    """Bytes of a sealed stream, header included. Raises ``ValueError`` above 2^52 - 1 bytes of plaintext."""
    return HEADER_SIZE + plaintext_size + chunk_count(plaintext_size) * TAG_SIZE


def plaintext_size(sealed_size: int) -> int:
    """Undo ``sealed_size``. Raises ``ValueError`` where no stream has that size: it was cut off, or is none."""
    body = arguments.integer("sealed_size", sealed_size, 0, _MAX_SEALED_SIZE) - HEADER_SIZE
    whole, last = divmod(body, SEALED_CHUNK_SIZE)
    if body < 0 or last < TAG_SIZE:
        raise ValueError(f"sealed_size must be that of a whole stream, not {sealed_size}")
    return whole * CHUNK_SIZE + last - TAG_SIZE


_MAX_SEALED_SIZE = sealed_size(MAX_PLAINTEXT_SIZE)


def chunk_offset(index: int) -> int:
    """Where chunk ``index`` begins in a sealed stream that starts with the 56-byte header."""
    return HEADER_SIZE + arguments.integer("index", index, 0, MAX_CHUNKS - 1) * SEALED_CHUNK_SIZE


class ChunkedSealer:
    """Seals one stream of any length under a 32-byte key, in constant memory.

    The stream is ``header``, what each ``update`` returns, and what ``finish`` returns. ``context`` is authenticated
    and not part of the stream. Threads may share it: each call happens as a whole. A fork's child may not go on with
    it, nor may it be copied: two streams would share their nonces.
    """

    __slots__ = ("_aead", "_base_nonce", "_fill", "_header", "_index", "_lock", "_pending", "_pid", "_usable")

    def __init__(self, key: Buffer, context: Buffer = b"") -> None:
        salt = os.urandom(SALT_SIZE)
        self._aead, self._base_nonce, commitment = _derived(key, salt, context)
        self._header = salt + commitment
        self._lock = threading.Lock()
        self._index = self._fill = 0
        self._pending = bytearray(CHUNK_SIZE)
        self._pid = os.getpid()
        self._usable = True

    @property
    def header(self) -> bytes:
        """The stream's first 56 bytes: salt (24) || commitment (32)."""
        return self._header

    def update(self, data: Buffers) -> bytes:
        """Add plaintext, a buffer or a list of buffers; returns every chunk that this completes, possibly none."""
        pieces, size = _views("data", data)
        with self._lock:
            self._check(size)
            take = (self._fill + size) // CHUNK_SIZE * CHUNK_SIZE - self._fill
            if take < 0:
                self._keep(pieces)
                return b""
            now, rest = _split(pieces, take)
            sealed = self._seal(now, (self._fill + take) // CHUNK_SIZE, last=False)
            self._keep(rest)
            return sealed

    def finish(self, data: Buffers = b"") -> bytes:
        """Add the last plaintext, and return all chunks that are left: the last of them is shorter than the others.

        After that ``update`` and ``finish`` raise ``ValueError``.
        """
        pieces, size = _views("data", data)
        with self._lock:
            self._check(size)
            sealed = self._seal(pieces, (self._fill + size) // CHUNK_SIZE + 1, last=True)
            self._usable = False
            _wipe(self._pending)
            return sealed

    def _check(self, size: int) -> None:
        if not self._usable:
            raise ValueError("the stream is finished: one sealer makes one stream")
        if os.getpid() != self._pid:
            raise RuntimeError("the stream was begun in another process: both would use the same nonces")
        if self._index * CHUNK_SIZE + self._fill + size > MAX_PLAINTEXT_SIZE:
            raise ValueError(f"a stream must be at most {MAX_PLAINTEXT_SIZE} bytes of plaintext")

    def _seal(self, pieces: list[memoryview], count: int, *, last: bool) -> bytes:
        self._usable = False  # for good, should anything below be interrupted: a nonce may have been used
        sealed = self._aead.seal_chunks(self._base_nonce, self._index, _after(self._pending, self._fill, pieces), last)
        self._index += count
        self._fill = 0
        self._usable = True
        return sealed

    def _keep(self, pieces: list[memoryview]) -> None:
        for piece in pieces:
            self._pending[self._fill : self._fill + piece.nbytes] = piece
            self._fill += piece.nbytes

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ChunkedSealer must not be copied: both would use the same nonces")


class _Incoming:
    """What is common to those who take a sealed stream in order."""

    __slots__ = ("_aead", "_base_nonce", "_fill", "_finished", "_index", "_invalid", "_lock", "_pending")

    def __init__(self, key: Buffer, header: Buffer, context: Buffer = b"") -> None:
        whole = arguments.sized("header", header, HEADER_SIZE)
        self._aead, self._base_nonce, commitment = _derived(key, whole[:SALT_SIZE], context)
        if not hmac.compare_digest(commitment, whole[SALT_SIZE:]):
            raise InvalidTag("the stream was not sealed under this key and context")
        self._lock = threading.Lock()
        self._index = self._fill = 0
        self._pending = bytearray(SEALED_CHUNK_SIZE)
        self._finished = self._invalid = False

    def _take(self, data: Buffers, work: Callable[[Buffer, int, Buffers, bool], _Result]) -> _Result | None:
        """Do the work on all chunks that are whole now; None if there is none."""
        pieces, size = _views("data", data)
        with self._lock:
            self._check()
            take = (self._fill + size) // SEALED_CHUNK_SIZE * SEALED_CHUNK_SIZE - self._fill
            if take < 0:
                self._keep(pieces)
                return None
            now, rest = _split(pieces, take)
            result = self._do(work, now, (self._fill + take) // SEALED_CHUNK_SIZE, last=False)
            self._keep(rest)
            return result

    def _take_last(self, data: Buffers, work: Callable[[Buffer, int, Buffers, bool], _Result]) -> _Result:
        pieces, size = _views("data", data)
        with self._lock:
            self._check()
            whole, last = divmod(self._fill + size, SEALED_CHUNK_SIZE)
            if last < TAG_SIZE:
                self._invalid = True
                raise InvalidTag("the stream is cut off")
            result = self._do(work, pieces, whole + 1, last=True)
            self._finished = True
            return result

    def _check(self) -> None:
        if self._invalid:
            raise InvalidTag("the stream did not verify")
        if self._finished:
            raise ValueError("the stream is finished")

    def _do(
        self, work: Callable[[Buffer, int, Buffers, bool], _Result], pieces: list[memoryview], count: int, *, last: bool
    ) -> _Result:
        self._invalid = True  # for good, unless all goes well
        if self._index + count + (not last) > MAX_CHUNKS:
            raise InvalidTag("the stream is longer than any may be")
        result = work(self._base_nonce, self._index, _after(self._pending, self._fill, pieces), last)
        self._index += count
        self._fill = 0
        self._invalid = False
        return result

    def _keep(self, pieces: list[memoryview]) -> None:
        for piece in pieces:
            self._pending[self._fill : self._fill + piece.nbytes] = piece
            self._fill += piece.nbytes

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} holds a key and must not be copied")


class ChunkedOpener(_Incoming):
    """Opens one sealed stream: in order with ``update`` and ``finish``, or any chunk of it with ``open_chunk``.

    ``header`` is the stream's first 56 bytes. Raises ``InvalidTag`` at once if its commitment is not to this key and
    context, and ``ValueError`` if it is of another length.

    Every byte returned has been verified, but only ``finish`` tells that the stream is whole: a caller who acts on
    data before that acts on what may be the beginning of a stream that somebody cut off. After an ``InvalidTag``
    it raises the same for ever. Threads may share it: each call happens as a whole.
    """

    __slots__ = ()

    def update(self, data: Buffers) -> bytes:
        """Add sealed bytes, a buffer or a list of buffers; returns the plaintext of every chunk that is now whole.

        Raises ``InvalidTag`` if one of them does not verify; then nothing of what this call was given is returned.
        """
        return self._take(data, self._aead.open_chunks) or b""

    def finish(self, data: Buffers = b"") -> bytes:
        """Add the last sealed bytes; returns the plaintext that is left, once it is certain that the stream is whole.

        Raises ``InvalidTag`` if the stream was cut off or continued. After that ``update`` and ``finish`` raise
        ``ValueError``.
        """
        return self._take_last(data, self._aead.open_chunks)

    def open_chunk(self, index: int, sealed_chunk: Buffer, last: bool = False) -> bytes:
        """Open one chunk by itself, in any order: ``sealed_chunk`` from ``chunk_offset(index)`` on.

        16 400 bytes, or for the ``last`` chunk 16 to 16 399; ``InvalidTag`` if it is of another length or does not
        verify. Only the last chunk proves where the stream ends. Does not disturb ``update`` and ``finish``.
        """
        number = arguments.integer("index", index, 0, MAX_CHUNKS - 1)
        size = arguments.buffer("sealed_chunk", sealed_chunk).nbytes
        if not (TAG_SIZE <= size < SEALED_CHUNK_SIZE if last else size == SEALED_CHUNK_SIZE):
            raise InvalidTag("the chunk is cut off, or not where the stream ends")
        return self._aead.open_chunks(self._base_nonce, number, sealed_chunk, last)


class ChunkedVerifier(_Incoming):
    """As ``ChunkedOpener``, but only verifies, which costs less: for a first pass, before anything is released."""

    __slots__ = ()

    def update(self, data: Buffers) -> None:
        """Add sealed bytes. Raises ``InvalidTag`` as soon as a chunk does not verify."""
        self._take(data, self._aead.verify_chunks)

    def finish(self, data: Buffers = b"") -> None:
        """Add the last sealed bytes; returns if the stream is whole, and raises ``InvalidTag`` if not."""
        self._take_last(data, self._aead.verify_chunks)


def _derived(key: Buffer, salt: bytes, context: Buffer) -> tuple[Aead, bytes, bytes]:
    """The stream's AEAD, base nonce and commitment: HKDF-Expand (RFC 5869, 2.3) of the key over salt and context."""
    input_key = arguments.sized("key", key, KEY_SIZE)
    info = b"".join((_INFO, salt, arguments.buffer("context", context)))
    size = KEY_SIZE + CHACHA20_NONCE_SIZE + COMMITMENT_SIZE
    block = output = b""
    for number in range(1, -(-size // _HASH_SIZE) + 1):
        block = hmac.digest(input_key, block + info + bytes([number]), _HASH)
        output += block
    nonce_end = KEY_SIZE + CHACHA20_NONCE_SIZE
    return Aead(output[:KEY_SIZE], "chacha20-poly1305"), output[KEY_SIZE:nonce_end], output[nonce_end:size]


def _views(name: str, data: Buffers) -> tuple[list[memoryview], int]:
    if type(data) is bytes:  # the common case, without the checks that others need
        return [memoryview(data)], len(data)
    if isinstance(data, list):
        views = [arguments.buffer(f"{name} piece", piece) for piece in data]
        return views, sum(view.nbytes for view in views)
    view = arguments.buffer(name, data)
    return [view], view.nbytes


def _split(pieces: list[memoryview], size: int) -> tuple[list[memoryview], list[memoryview]]:
    """The first ``size`` bytes of the pieces, and the others."""
    before: list[memoryview] = []
    for number, piece in enumerate(pieces):
        if piece.nbytes > size:
            return [*before, piece[:size]], [piece[size:], *pieces[number + 1 :]]
        before.append(piece)
        size -= piece.nbytes
    return before, []


def _after(pending: bytearray, fill: int, pieces: list[memoryview]) -> Buffers:
    if fill:
        return [memoryview(pending)[:fill], *pieces]
    return pieces[0] if len(pieces) == 1 else pieces


def _wipe(buffer: bytearray) -> None:
    buffer[:] = bytes(len(buffer))
