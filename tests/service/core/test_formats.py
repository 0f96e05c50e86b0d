"""The byte formats: every cut, every bit, and one spelling of base64 per value."""

import base64
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import formats
from service.errors import Malformed

SEALING = ("chacha20-poly1305", "xchacha20-poly1305")


@given(
    st.sampled_from([(1, "chacha20-poly1305"), (1, "xchacha20-poly1305"), (2, "chacha20-poly1305")]),
    st.integers(1, 2**32 - 1),
    st.binary(max_size=40),
)
def test_header_round_trips(kind: tuple[int, str], version: int, rest: bytes) -> None:
    format, algorithm = kind
    made = formats.header(format, algorithm, version)
    assert made == bytes([format, formats.ALGORITHMS[algorithm], 0, 0]) + version.to_bytes(4)
    assert formats.parse_header(made + rest) == (format, formats.ALGORITHMS[algorithm], version)


@pytest.mark.parametrize(
    ("format", "algorithm", "version"),
    [
        (0, "chacha20-poly1305", 1),
        (4, "chacha20-poly1305", 1),
        (1, "poly1305-xchacha20", 1),
        (3, "xchacha20-poly1305", 1),
        (1, "aes", 1),
        (1, "xchacha20-poly1305", 0),
        (1, "xchacha20-poly1305", 2**32),
    ],
)
def test_header_refuses_what_no_format_has(format: int, algorithm: str, version: int) -> None:
    with pytest.raises(ValueError, match="header"):
        formats.header(format, algorithm, version)


@pytest.mark.parametrize("algorithm", SEALING)
def test_sealed_message_cut_at_every_length(algorithm: str) -> None:
    least = formats.MESSAGE_OVERHEAD[algorithm]
    assert least == 8 + formats.NONCE_SIZE[algorithm] + 16
    message = formats.header(1, algorithm, 7) + bytes(least - 8 + 20)
    for length in range(len(message) + 1):
        if length < least:
            with pytest.raises(Malformed, match="wanted"):
                formats.parse_sealed(message[:length])
        else:
            assert formats.parse_sealed(message[:length]).version == 7


def test_mac_is_exactly_48_bytes() -> None:
    mac = formats.header(3, "poly1305-xchacha20", 7) + bytes(60)
    for length in range(len(mac) + 1):
        if length == 48:
            assert formats.parse_mac(mac[:length]) == (3, 3, 7)
        else:
            with pytest.raises(Malformed):
                formats.parse_mac(mac[:length])


def test_other_formats_are_not_taken_for_messages_or_macs() -> None:
    with pytest.raises(Malformed, match="sealed message"):
        formats.parse_sealed(formats.header(2, "chacha20-poly1305", 1) + bytes(100))
    with pytest.raises(Malformed, match="sealed message"):
        formats.parse_sealed(formats.header(3, "poly1305-xchacha20", 1) + bytes(40))
    with pytest.raises(Malformed, match="MAC"):
        formats.parse_mac(formats.header(1, "xchacha20-poly1305", 1) + bytes(40))
    with pytest.raises(Malformed, match="sealed stream"):
        formats.parse_stream(formats.header(1, "chacha20-poly1305", 1) + bytes(72))
    assert formats.parse_stream(formats.header(2, "chacha20-poly1305", 7) + bytes(72)) == (2, 1, 7)


@given(st.binary(min_size=8, max_size=80))
def test_headers_parse_exactly_if_they_could_have_been_made(data: bytes) -> None:
    """Checked against the table of the format, written down independently of the parser."""
    valid = (data[0], data[1]) in {(1, 1), (1, 2), (2, 1), (3, 3)} and data[2:4] == b"\0\0" and any(data[4:8])
    try:
        formats.parse_header(data)
    except Malformed:
        assert not valid
    else:
        assert valid


@given(st.sampled_from([bytes, bytearray, memoryview]), st.binary(max_size=200))
def test_base64_round_trips(kind: type, data: bytes) -> None:
    text = formats.encode_base64(kind(data))
    assert text == base64.b64encode(data).decode()
    assert formats.decode_base64(text) == data
    assert formats.decode_base64(text.encode()) == data


def _canonical(text: str) -> bool:
    """Whether it is what an encoder would write: the definition that the fast check must agree with."""
    try:
        return base64.b64encode(base64.b64decode(text)).decode() == text
    except ValueError:
        return False


def test_base64_of_every_short_text() -> None:
    """All texts of up to six characters out of the interesting ones, and of eight out of fewer."""
    texts = itertools.chain(
        *(itertools.product("AQgB=\n-", repeat=length) for length in range(7)),
        itertools.product("AQB=", repeat=8),
    )
    accepted = 0
    for characters in texts:
        text = "".join(characters)
        try:
            formats.decode_base64(text)
        except Malformed:
            assert not _canonical(text), text
        else:
            assert _canonical(text), text
            accepted += 1
    assert accepted > 1000


@given(st.text(max_size=12) | st.text(alphabet="ABQRgw+/=_- \t\n\0é", max_size=12))
def test_base64_refuses_all_but_the_canonical(text: str) -> None:
    try:
        formats.decode_base64(text)
    except Malformed:
        assert not _canonical(text)
    else:
        assert _canonical(text)


@pytest.mark.parametrize(
    "text",
    [
        "QQ",
        "QQ=",
        "QR==",
        "QUJ=",
        "QQ==\n",
        " QQ==",
        "QQ= =",
        "QQ===",
        "AAAA=",
        "AAAA====",
        "=",
        "====",
        "_-8=",
        "QÖ==",
    ],
)
def test_base64_refusals_by_name(text: str) -> None:
    with pytest.raises(Malformed, match="standard base64"):
        formats.decode_base64(text)
    assert formats.decode_base64("") == b""
