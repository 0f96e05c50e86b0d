"""The byte formats: 8-byte headers, sealed messages, MACs, and strict base64. Pure functions.

All integers are big-endian. A header is format (1), algorithm (1), zero (2), key version (4).
"""

import binascii
import struct
from typing import Final, NamedTuple

from service.errors import Malformed

BytesLike = bytes | bytearray | memoryview

FORMAT_MESSAGE: Final = 1
FORMAT_STREAM: Final = 2
FORMAT_MAC: Final = 3

ALGORITHMS: Final[dict[str, int]] = {"chacha20-poly1305": 1, "xchacha20-poly1305": 2, "poly1305-xchacha20": 3}
ALGORITHM_NAMES: Final[dict[int, str]] = {number: name for name, number in ALGORITHMS.items()}

HEADER_SIZE: Final = 8
TAG_SIZE: Final = 16
MAC_NONCE_SIZE: Final = 24
MAC_SIZE: Final = HEADER_SIZE + MAC_NONCE_SIZE + TAG_SIZE
# A stream begins with a header, salt (24) and commitment (32); the shortest one seals nothing, in one chunk.
STREAM_ALGORITHM: Final = "chacha20-poly1305"
STREAM_HEAD_SIZE: Final = HEADER_SIZE + 24 + 32
STREAM_LEAST_SIZE: Final = STREAM_HEAD_SIZE + TAG_SIZE
NONCE_SIZE: Final[dict[str, int]] = {"chacha20-poly1305": 12, "xchacha20-poly1305": 24}
MESSAGE_OVERHEAD: Final[dict[str, int]] = {name: HEADER_SIZE + size + TAG_SIZE for name, size in NONCE_SIZE.items()}
MAX_VERSION: Final = 2**32 - 1

# Which algorithms a format may carry.
_FORMAT_ALGORITHMS: Final[dict[int, frozenset[int]]] = {
    FORMAT_MESSAGE: frozenset({1, 2}),
    FORMAT_STREAM: frozenset({1}),
    FORMAT_MAC: frozenset({3}),
}
_HEADER: Final = struct.Struct(">BBHI")

# The last character before the padding carries 4 or 2 bits that decode to nothing: they must be zero, or one
# value would have many spellings. Python's strict decoders and msgspec accept them.
_LAST_BEFORE_ONE: Final = frozenset(b"AEIMQUYcgkosw048")
_LAST_BEFORE_TWO: Final = frozenset(b"AQgw")
_PAD: Final = 0x3D
_NOT_BASE64: Final = "wanted standard base64 with padding, without whitespace and with zero trailing bits"


class Header(NamedTuple):
    format: int
    algorithm: int
    version: int


def header(format: int, algorithm: str, version: int) -> bytes:
    """The 8 bytes before everything the service makes. ValueError if a field can't be."""
    number = ALGORITHMS.get(algorithm)
    if number is None or number not in _FORMAT_ALGORITHMS.get(format, ()):
        raise ValueError("header: the format does not carry this algorithm")
    if not 1 <= version <= MAX_VERSION:
        raise ValueError(f"header: version must be 1 to {MAX_VERSION}")
    return _HEADER.pack(format, number, 0, version)


def parse_header(data: BytesLike) -> Header:
    """The header that `data` begins with. Malformed if it is too short or a field is unknown."""
    view = memoryview(data)
    if view.nbytes < HEADER_SIZE:
        raise Malformed(f"wanted at least the {HEADER_SIZE} bytes of a header")
    format, algorithm, zero, version = _HEADER.unpack_from(view)
    if format not in _FORMAT_ALGORITHMS:
        raise Malformed("wanted format 1 (sealed message), 2 (sealed stream) or 3 (MAC) in byte 0 of the header")
    if algorithm not in _FORMAT_ALGORITHMS[format]:
        raise Malformed("wanted an algorithm that goes with the format in byte 1 of the header")
    if zero:
        raise Malformed("wanted zero in bytes 2 and 3 of the header")
    if not version:
        raise Malformed("wanted a key version of 1 or more in bytes 4 to 7 of the header")
    return Header(format, algorithm, version)


def parse_sealed(message: BytesLike) -> Header:
    """The header of a sealed message. Malformed if it is another format or too short to be any."""
    parsed = parse_header(message)
    if parsed.format != FORMAT_MESSAGE:
        raise Malformed("wanted a sealed message (format 1)")
    least = MESSAGE_OVERHEAD[ALGORITHM_NAMES[parsed.algorithm]]
    if memoryview(message).nbytes < least:
        raise Malformed(f"wanted a sealed message, which is at least {least} bytes for its algorithm")
    return parsed


def parse_stream(head: BytesLike) -> Header:
    """The header of a sealed stream. Malformed if it is another format."""
    parsed = parse_header(head)
    if parsed.format != FORMAT_STREAM:
        raise Malformed("wanted a sealed stream (format 2)")
    return parsed


def parse_mac(mac: BytesLike) -> Header:
    """The header of a MAC. Malformed if it is another format or not exactly 48 bytes."""
    parsed = parse_header(mac)
    if parsed.format != FORMAT_MAC:
        raise Malformed("wanted a MAC (format 3)")
    if memoryview(mac).nbytes != MAC_SIZE:
        raise Malformed(f"wanted a MAC of exactly {MAC_SIZE} bytes")
    return parsed


def decode_base64(text: str | bytes) -> bytes:
    """Standard base64 with padding, one spelling per value (RFC 4648 sections 3.3 and 3.5). Malformed otherwise."""
    try:
        data = text.encode("ascii") if isinstance(text, str) else text
        decoded = binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        raise Malformed(_NOT_BASE64) from None
    if len(data) & 3:
        raise Malformed(_NOT_BASE64)
    if data and data[-1] == _PAD:
        if data[-2] == _PAD:
            if data[-3] not in _LAST_BEFORE_TWO:
                raise Malformed(_NOT_BASE64)
        elif data[-2] not in _LAST_BEFORE_ONE:
            raise Malformed(_NOT_BASE64)
    return decoded


def encode_base64(data: BytesLike) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
