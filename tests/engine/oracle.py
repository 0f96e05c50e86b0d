"""What the reference answers for every prefix of one message: it is slow, so each answer is computed once."""

from __future__ import annotations

import functools
import random
import struct

from engine.backends import reference

PRIME = 2**130 - 5
CLAMP = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
#: Longer than several passes of the widest kernel, and than a slice of the AEAD.
LONG = 70 * 1024

NONCE_SIZES = {"xchacha20-poly1305": 24, "chacha20-poly1305": 12}


def data(name: str, size: int) -> bytes:
    """Bytes that look random and are the same in every run."""
    return random.Random(f"sealane {name}").randbytes(size)


KEY = data("key", 32)
AAD = data("aad", 2200)
MESSAGE = data("message", LONG)


def nonce(algorithm: str) -> bytes:
    return data("nonce", NONCE_SIZES[algorithm])


def xor(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(len(a), "little")


class Tags:
    """Poly1305 of any prefix of ``message``, with an optional ``tail``, from the accumulator after each whole block."""

    def __init__(self, key: bytes, message: bytes, head: bytes = b"") -> None:
        assert len(head) % 16 == 0
        self.message = message
        self.r = int.from_bytes(key[:16], "little") & CLAMP
        self.s = int.from_bytes(key[16:], "little")
        accumulator = self.absorbed(0, head)
        self.accumulators = [accumulator]
        for start in range(0, len(message) - 15, 16):
            accumulator = self.absorbed(accumulator, message[start : start + 16])
            self.accumulators.append(accumulator)

    def absorbed(self, accumulator: int, blocks: bytes) -> int:
        for start in range(0, len(blocks), 16):
            block = int.from_bytes(blocks[start : start + 16] + b"\1", "little")
            accumulator = (accumulator + block) * self.r % PRIME
        return accumulator

    def _finished(self, accumulator: int) -> bytes:
        return ((accumulator + self.s) % 2**128).to_bytes(16, "little")

    def of(self, size: int) -> bytes:
        """The tag of the first ``size`` bytes."""
        whole = size // 16
        return self._finished(self.absorbed(self.accumulators[whole], self.message[whole * 16 : size]))

    def of_padded(self, size: int, tail: bytes) -> bytes:
        """The tag of the first ``size`` bytes, padded to whole blocks, and then ``tail``."""
        whole = size // 16
        rest = self.message[whole * 16 : size]
        return self._finished(self.absorbed(self.accumulators[whole], rest + bytes(-len(rest) % 16) + tail))


@functools.cache
def poly1305(size: int = LONG) -> Tags:
    return Tags(KEY, MESSAGE[:size])


@functools.cache
def _chacha20_key(algorithm: str) -> tuple[bytes, bytes]:
    whole = nonce(algorithm)
    return reference.extended(KEY, whole) if len(whole) == 24 else (KEY, whole)


@functools.cache
def ciphertext(algorithm: str) -> bytes:
    key, short_nonce = _chacha20_key(algorithm)
    return xor(MESSAGE, reference.chacha20_keystream(key, short_nonce, LONG, 1))


@functools.cache
def _aead_tags(algorithm: str, aad: bytes) -> Tags:
    key, short_nonce = _chacha20_key(algorithm)
    one_time_key = reference.chacha20_block(key, short_nonce, 0)[:32]
    return Tags(one_time_key, ciphertext(algorithm), aad + bytes(-len(aad) % 16))


def sealed(algorithm: str, size: int, aad: bytes = b"") -> bytes:
    """What sealing the first ``size`` bytes of MESSAGE under KEY and ``nonce(algorithm)`` gives."""
    tag = _aead_tags(algorithm, aad).of_padded(size, struct.pack("<QQ", len(aad), size))
    return ciphertext(algorithm)[:size] + tag


@functools.cache
def sealed_at_every_size(algorithm: str, highest: int, aad: bytes = b"") -> list[bytes]:
    return [sealed(algorithm, size, aad) for size in range(highest + 1)]


def keystream(counter: int, blocks: int) -> bytes:
    return _keystream(counter, blocks)


@functools.cache
def _keystream(counter: int, blocks: int) -> bytes:
    return reference.chacha20_keystream(KEY, nonce("chacha20-poly1305"), 64 * blocks, counter)


def random_sizes(name: str, highest: int, count: int) -> list[int]:
    draw = random.Random(f"sealane {name}")
    return [draw.randrange(highest + 1) for _ in range(count)]


def random_splits(name: str, size: int) -> list[int]:
    """Sizes of pieces, zero included, that add up to ``size``; small ones and large ones in one split."""
    draw = random.Random(f"sealane {name} {size}")
    pieces = []
    while size:
        piece = min(size, draw.choice((0, 1, draw.randrange(16), 16, draw.randrange(100), draw.randrange(5000))))
        pieces.append(piece)
        size -= piece
    return pieces
