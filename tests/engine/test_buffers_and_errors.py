"""What goes in and what comes out of every call, on every implementation: buffers of all kinds, and clear refusals."""

from __future__ import annotations

import array
import ctypes
import mmap
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import engine

KEY = bytes(range(32))
NONCES = {"xchacha20-poly1305": bytes(24), "chacha20-poly1305": bytes(12)}
TEXT = b"sixteen bytes of" * 6
pytestmark = pytest.mark.usefixtures("implementation")


def refused(error: type[Exception], message: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    with pytest.raises(error, match=re.escape(message)) as raised:
        call(*arguments, **named)
    assert type(raised.value) is error


# Sizes


@pytest.mark.parametrize("size", [0, 1, 16, 31, 33, 64])
def test_key_sizes(size: int) -> None:
    for make in (engine.Aead, engine.MacKey):
        refused(ValueError, f"key must be 32 bytes, not {size}", make, bytes(size))
    refused(ValueError, f"key must be 32 bytes, not {size}", engine.Poly1305, bytes(size))
    refused(ValueError, f"key must be 32 bytes, not {size}", engine.chacha20_xor, bytes(size), bytes(12), b"")
    refused(ValueError, f"key must be 32 bytes, not {size}", engine.hchacha20, bytes(size), bytes(16))


def test_nonce_sizes(algorithm: str) -> None:
    aead = engine.Aead(KEY, algorithm)
    right = aead.nonce_size
    assert right == len(NONCES[algorithm])
    for size in (0, 8, 11, 12, 13, 23, 24, 25):
        if size != right:
            message = f"nonce must be {right} bytes, not {size}"
            refused(ValueError, message, aead.seal, bytes(size), TEXT)
            refused(ValueError, message, aead.open, bytes(size), TEXT)
            refused(ValueError, message, aead.seal_into, bytes(size), TEXT, bytearray(200))
            refused(ValueError, message, aead.open_into, bytes(size), TEXT, bytearray(200))
    refused(ValueError, "nonce must be 12 bytes, not 24", engine.chacha20_xor, KEY, bytes(24), b"")
    refused(ValueError, "nonce must be 16 bytes, not 12", engine.hchacha20, KEY, bytes(12))
    refused(ValueError, "nonce must be 24 bytes, not 12", engine.MacKey(KEY).start, bytes(12))


@pytest.mark.parametrize("size", range(16))
def test_shorter_than_a_tag(algorithm: str, size: int) -> None:
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    message = f"sealed must be at least 16 bytes, not {size}"
    refused(ValueError, message, aead.open, nonce, bytes(size))
    refused(ValueError, message, aead.open_into, nonce, bytes(size), bytearray(100))


def test_tag_sizes() -> None:
    for size in (0, 15, 17):
        refused(ValueError, f"tag must be 16 bytes, not {size}", engine.Poly1305(KEY).verify, bytes(size))


def test_too_long_for_the_counter(algorithm: str) -> None:
    """2^38 bytes of address space, none of it touched."""
    limit = (2**32 - 1) * 64
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        space = mmap.mmap(-1, limit + 64, flags=flags)
    except (OSError, ValueError, OverflowError) as error:
        pytest.skip(f"256 GiB of address space are not to be had: {error}")
    view = memoryview(space)
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    never_wraps = "so that the block counter never wraps"
    message = f"plaintext must be at most {limit} bytes, {never_wraps}, not {limit + 1}"
    text = view[: limit + 1]
    refused(ValueError, message, aead.seal, nonce, text)
    refused(ValueError, message, aead.seal_into, nonce, text, view)
    refused(ValueError, message, aead.seal_framed, b"", text)
    message = f"sealed must be at most {limit + 16} bytes, {never_wraps}, not {limit + 17}"
    sealed = view[: limit + 17]
    refused(ValueError, message, aead.open, nonce, sealed)
    refused(ValueError, message, aead.open_into, nonce, sealed, view)


# Types

NOT_BYTES = [None, 3, "text", 1.5, [1, 2], object()]


@pytest.mark.parametrize("wrong", NOT_BYTES, ids=lambda wrong: type(wrong).__name__)
def test_types(algorithm: str, wrong: Any) -> None:
    what = f"must be bytes-like, not {type(wrong).__name__}"
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    for make in (engine.Aead, engine.MacKey):
        refused(TypeError, f"key {what}", make, wrong)
    for seal in (aead.seal, aead.open):
        name = "plaintext" if seal == aead.seal else "sealed"
        refused(TypeError, f"nonce {what}", seal, wrong, TEXT)
        refused(TypeError, f"{name} {what}", seal, nonce, wrong)
        refused(TypeError, f"aad {what}", seal, nonce, TEXT, wrong)
    for seal_into in (aead.seal_into, aead.open_into):
        name = "plaintext" if seal_into == aead.seal_into else "sealed"
        refused(TypeError, f"nonce {what}", seal_into, wrong, TEXT, bytearray(200))
        refused(TypeError, f"{name} {what}", seal_into, nonce, wrong, bytearray(200))
        refused(TypeError, f"out {what}", seal_into, nonce, TEXT, wrong)
        refused(TypeError, f"aad {what}", seal_into, nonce, TEXT, bytearray(200), wrong)
    refused(TypeError, f"prefix {what}", aead.seal_framed, wrong, TEXT)
    refused(TypeError, f"aad {what}", aead.seal_framed, b"", TEXT, wrong)
    refused(TypeError, f"message {what}", aead.open_framed, wrong, 0)
    refused(TypeError, f"aad {what}", aead.open_framed, bytes(60), 0, wrong)
    refused(TypeError, f"key {what}", engine.Poly1305, wrong)
    refused(TypeError, f"data {what}", engine.Poly1305(KEY).update, wrong)
    refused(TypeError, f"tag {what}", engine.Poly1305(KEY).verify, wrong)
    refused(TypeError, f"state {what}", engine.Poly1305.from_state, wrong)
    refused(TypeError, f"nonce {what}", engine.MacKey(KEY).start, wrong)
    refused(TypeError, f"data {what}", engine.chacha20_xor, KEY, bytes(12), wrong)
    refused(TypeError, f"nonce {what}", engine.hchacha20, KEY, wrong)
    refused(TypeError, f"plaintext piece {what}", aead.seal_framed, b"", [b"good", wrong])
    if not isinstance(wrong, list):
        refused(TypeError, f"plaintext {what}", aead.seal_framed, b"", wrong)


def test_algorithms() -> None:
    assert engine.Aead(KEY).algorithm == "xchacha20-poly1305"
    for name in ("", "aes-256-gcm", "XChaCha20-Poly1305", "xchacha20-poly1305\0"):
        with pytest.raises(ValueError, match="algorithm must be 'xchacha20-poly1305' or 'chacha20-poly1305', not "):
            engine.Aead(KEY, name)
    wrong: Any = b"chacha20-poly1305"
    refused(TypeError, "algorithm must be a string, not bytes", engine.Aead, KEY, wrong)


def test_integers() -> None:
    refused(TypeError, "counter must be an int, not str", engine.chacha20_xor, KEY, bytes(12), b"", "1")
    refused(TypeError, "counter must be an int, not float", engine.chacha20_xor, KEY, bytes(12), b"", 1.0)
    aead = engine.Aead(KEY)
    refused(TypeError, "prefix_size must be an int, not str", aead.open_framed, bytes(60), "1")
    for size in (-1, 2**63, 2**70):
        refused(
            ValueError,
            f"prefix_size must be from 0 to the message's 60 bytes, not {size}",
            aead.open_framed,
            bytes(60),
            size,
        )


def test_errors_do_not_echo_what_came() -> None:
    secret = b"a secret that is too long to be a key by a byte or so"
    for call in (engine.Aead, engine.MacKey, engine.Poly1305, engine.Poly1305.from_state):
        with pytest.raises(ValueError, match="must be") as raised:
            call(secret)
        assert "secret" not in str(raised.value)


def test_missing_and_unknown_arguments() -> None:
    aead: Any = engine.Aead(KEY)
    with pytest.raises(TypeError):
        aead.seal(bytes(24))
    with pytest.raises(TypeError):
        aead.seal(bytes(24), TEXT, b"", b"")
    with pytest.raises(TypeError):
        aead.seal(bytes(24), TEXT, ad=b"")
    named = aead.seal(nonce=bytes(24), plaintext=TEXT, aad=b"x")
    assert aead.open(nonce=bytes(24), sealed=named, aad=b"x") == TEXT


# Buffers


class Ctypes:
    def __new__(cls, data: bytes) -> Any:
        return (ctypes.c_char * len(data)).from_buffer_copy(data)


def mapped(data: bytes) -> mmap.mmap:
    space = mmap.mmap(-1, len(data))
    space[:] = data
    return space


BUFFERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "slice": lambda data: memoryview(b"?" + data + b"?")[1:-1],
    "array": lambda data: array.array("I", data),
    "ctypes": Ctypes,
    "mmap": mapped,
    "two dimensions": lambda data: memoryview(data).cast("B", (2, len(data) // 2)),
}


@pytest.mark.parametrize("kind", BUFFERS)
def test_any_buffer_goes_in(algorithm: str, kind: str) -> None:
    as_buffer = BUFFERS[kind]
    nonce = NONCES[algorithm]
    expected = engine.Aead(KEY, algorithm).seal(nonce, TEXT, TEXT)
    aead = engine.Aead(as_buffer(KEY), algorithm)
    assert aead.seal(as_buffer(nonce), as_buffer(TEXT), as_buffer(TEXT)) == expected
    assert aead.open(as_buffer(nonce), as_buffer(expected), as_buffer(TEXT)) == TEXT
    framed = aead.seal_framed(as_buffer(TEXT), [as_buffer(TEXT), as_buffer(TEXT)], as_buffer(TEXT))
    if len(framed) % 4 == 0:
        assert aead.open_framed(as_buffer(framed), len(TEXT), as_buffer(TEXT)) == TEXT * 2
    mac = engine.Poly1305(as_buffer(KEY))
    mac.update(as_buffer(TEXT))
    other = engine.Poly1305(KEY)
    other.update(TEXT)
    mac.verify(as_buffer(other.digest()))
    assert engine.chacha20_xor(as_buffer(KEY), as_buffer(bytes(12)), as_buffer(TEXT)) == engine.chacha20_xor(
        KEY, bytes(12), TEXT
    )
    assert engine.hchacha20(as_buffer(KEY), as_buffer(bytes(16))) == engine.hchacha20(KEY, bytes(16))


@pytest.mark.parametrize("kind", ["bytearray", "array", "ctypes", "mmap"])
def test_any_writable_buffer_takes_output(algorithm: str, kind: str) -> None:
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    out = BUFFERS[kind](b"?" * 200)
    sealed = aead.seal(nonce, TEXT)
    assert aead.seal_into(nonce, TEXT, out, b"") == len(sealed)
    assert bytes(out) == sealed + b"?" * (200 - len(sealed))
    assert aead.open_into(nonce, sealed, out=out) == len(TEXT)
    assert bytes(out)[: len(TEXT)] == TEXT
    assert bytes(out)[len(sealed) :] == b"?" * (200 - len(sealed))


def test_empty_buffers_of_every_kind(algorithm: str) -> None:
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    expected = aead.seal(nonce, b"")
    for empty in (bytearray(), memoryview(b""), array.array("I"), memoryview(b"abc")[3:], (ctypes.c_char * 0)()):
        assert aead.seal(nonce, empty, empty) == expected
        assert aead.open(nonce, expected, empty) == b""
        mac = engine.Poly1305(KEY)
        mac.update(empty)
        assert mac.digest() == KEY[16:]
        assert engine.chacha20_xor(KEY, bytes(12), empty) == b""
    assert aead.open_into(nonce, expected, bytearray()) == 0


def test_scattered_buffers_are_refused(algorithm: str) -> None:
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    scattered = memoryview(bytearray(400))[::2]
    what = "must be contiguous"
    refused(ValueError, f"plaintext {what}", aead.seal, nonce, scattered)
    refused(ValueError, f"sealed {what}", aead.open, nonce, scattered)
    refused(ValueError, f"aad {what}", aead.seal, nonce, TEXT, scattered)
    refused(ValueError, f"nonce {what}", aead.seal, scattered, TEXT)
    refused(ValueError, f"out {what} and writable", aead.seal_into, nonce, TEXT, scattered)
    refused(ValueError, f"out {what} and writable", aead.open_into, nonce, TEXT, scattered)
    refused(ValueError, f"plaintext {what}", aead.seal_framed, b"", scattered)
    refused(ValueError, f"plaintext piece {what}", aead.seal_framed, b"", [TEXT, scattered])
    refused(ValueError, f"message {what}", aead.open_framed, scattered, 0)
    refused(ValueError, f"data {what}", engine.Poly1305(KEY).update, scattered)
    refused(ValueError, f"data {what}", engine.chacha20_xor, KEY, bytes(12), scattered)
    refused(ValueError, f"key {what}", engine.Aead, scattered[:32])


def test_buffers_are_given_back(algorithm: str) -> None:
    """A bytearray that something still holds can't change its size."""
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    text, out, short = bytearray(TEXT), bytearray(200), bytearray(10)
    aead.seal_into(nonce, text, out, text)
    aead.seal(nonce, text, text)
    aead.seal_framed(text, [text, text], text)
    aead.seal_framed_many(text, [(text, text), ([text], text)])
    with pytest.raises(ValueError, match="out must be at least"):
        aead.seal_into(nonce, text, short, text)
    with pytest.raises(ValueError, match="nonce must be"):
        aead.seal(short, text, text)
    with pytest.raises(TypeError):
        aead.seal_framed(text, [text, 3], text)  # type: ignore[list-item]
    with pytest.raises(engine.InvalidTag):
        aead.open_into(nonce, text, out, text)
    for buffer in (text, out, short):
        buffer.append(0)


# Output


def test_out_too_small_or_read_only(algorithm: str) -> None:
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    sealed = aead.seal(nonce, TEXT)
    needed = len(sealed)
    refused(
        ValueError, f"out must be at least {needed} bytes, not {needed - 1}", aead.seal_into, nonce, TEXT,
        bytearray(needed - 1),
    )  # fmt: skip
    refused(ValueError, f"out must be at least {len(TEXT)} bytes, not 5", aead.open_into, nonce, sealed, bytearray(5))
    for call, text in ((aead.seal_into, TEXT), (aead.open_into, sealed)):
        refused(ValueError, "out must be contiguous and writable", call, nonce, text, bytes(200))
        view = memoryview(bytearray(200)).toreadonly()
        refused(ValueError, "out must be contiguous and writable", call, nonce, text, view)


@pytest.mark.parametrize("distance", [-96, -95, -64, -16, -1, 1, 2, 16, 63, 95, 111])
def test_overlaps(algorithm: str, distance: int) -> None:
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    sealed = aead.seal(nonce, TEXT)
    space = bytearray(400)
    view = memoryview(space)
    size = len(TEXT)
    assert size == 96
    start = 150
    view[start : start + size] = TEXT
    out = view[start + distance : start + distance + size + 16]
    for source in (view[start : start + size], view[start : start + size].toreadonly()):
        if distance < size:
            what = "out must begin where the input begins, or not overlap it"
            refused(ValueError, what, aead.seal_into, nonce, source, out)
            assert space[start : start + size] == TEXT
        else:
            assert aead.seal_into(nonce, source, out) == len(sealed)
            assert out == sealed
    view[start : start + len(sealed)] = sealed
    out = view[start + distance : start + distance + size]
    for source in (view[start : start + len(sealed)], view[start : start + len(sealed)].toreadonly()):
        if distance > -size:
            what = "out must begin where the input begins, or not overlap it"
            refused(ValueError, what, aead.open_into, nonce, source, out)
            assert space[start : start + len(sealed)] == sealed
        else:
            assert aead.open_into(nonce, source, out) == size
            assert out == TEXT


@pytest.mark.parametrize("size", [1, 64, 96, 1000, 70000])
def test_nothing_is_left_when_open_fails(algorithm: str, size: int) -> None:
    """Each byte of the output is what it was or zero: never what the forged message would have decrypted to."""
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    forged = bytearray(aead.seal(nonce, b"\x5a" * size))
    forged[-1] ^= 1
    before = bytes(forged)
    out = bytearray(b"?" * (size + 50))
    with pytest.raises(engine.InvalidTag):
        aead.open_into(nonce, forged, out)
    assert out in (bytes(size) + b"?" * 50, b"?" * (size + 50))
    with pytest.raises(engine.InvalidTag):
        aead.open_into(nonce, forged, forged)
    assert forged in (bytes(size) + before[size:], before)


def test_invalid_tag_tells_nothing(algorithm: str) -> None:
    aead, nonce = engine.Aead(KEY, algorithm), NONCES[algorithm]
    sealed = bytearray(aead.seal(nonce, TEXT, b"aad"))
    said = set()
    for attempt in ("tag", "text", "aad", "nonce", "key"):
        forged = bytearray(sealed)
        if attempt in ("tag", "text"):
            forged[-1 if attempt == "tag" else 0] ^= 1
        opener = engine.Aead(bytes(32), algorithm) if attempt == "key" else aead
        used = b"\1" * len(nonce) if attempt == "nonce" else nonce
        with pytest.raises(engine.InvalidTag) as raised:
            opener.open(used, forged, b"" if attempt == "aad" else b"aad")
        said.add(str(raised.value))
    assert len(said) == 1


# Poly1305


def test_after_the_tag() -> None:
    finished = "the MAC is finished: one key makes one tag"
    for finish in (lambda mac: mac.digest(), lambda mac: mac.verify(_tag_of_text())):
        mac = engine.Poly1305(KEY)
        mac.update(TEXT)
        finish(mac)
        refused(ValueError, finished, mac.update, b"")
        refused(ValueError, finished, mac.export_state)
        assert mac.digest() == mac.digest() == _tag_of_text()
        assert mac.verify(mac.digest()) is None


def _tag_of_text() -> bytes:
    mac = engine.Poly1305(KEY)
    mac.update(TEXT)
    return mac.digest()


def test_a_wrong_tag() -> None:
    tag = _tag_of_text()
    for bit in range(128):
        mac = engine.Poly1305(KEY)
        mac.update(TEXT)
        wrong = (int.from_bytes(tag, "little") ^ 1 << bit).to_bytes(16, "little")
        with pytest.raises(engine.InvalidTag):
            mac.verify(wrong)
        mac.verify(tag)


def test_states_that_are_not_canonical() -> None:
    mac = engine.Poly1305(KEY)
    mac.update(TEXT[:37])
    state = mac.export_state()
    assert len(state) == 66
    from_state = engine.Poly1305.from_state
    what = "state must be what export_state() returned"
    for size in (0, 65, 67):
        refused(ValueError, f"state must be 66 bytes, not {size}", from_state, bytes(size))
    for version in (0, 2, 255):
        refused(ValueError, what, from_state, bytes([version]) + state[1:])
    for accumulator in (2**130 - 5, 2**130 - 1, 2**130, 2**136 - 1):
        unreduced = state[:33] + accumulator.to_bytes(17, "little") + state[50:]
        refused(ValueError, what, from_state, unreduced)
    highest = state[:33] + (2**130 - 6).to_bytes(17, "little") + state[50:]
    assert from_state(highest).export_state() == highest
    for length in (16, 17, 255):
        wrong = state[:50] + bytes([length]) + state[51:]
        refused(ValueError, what, from_state, wrong)
    for index in range(51 + 5, 66):
        wrong = bytearray(state)
        wrong[index] = 1
        refused(ValueError, what, from_state, wrong)


# Frames


def test_framed(algorithm: str) -> None:
    aead = engine.Aead(KEY, algorithm)
    size = aead.nonce_size
    for prefix, text, aad in ((b"", b"", b""), (b"prefix 8", TEXT, b"aad"), (b"p" * 100, TEXT * 300, b"a" * 999)):
        framed = aead.seal_framed(prefix, text, aad)
        assert type(framed) is bytes
        assert framed.startswith(prefix)
        nonce, sealed = framed[len(prefix) : len(prefix) + size], framed[len(prefix) + size :]
        assert aead.open(nonce, sealed, prefix + aad) == text
        assert aead.open_framed(framed, len(prefix), aad) == text
        assert aead.open_framed(memoryview(framed), len(prefix), aad=aad) == text
        with pytest.raises(engine.InvalidTag):
            aead.open_framed(framed, len(prefix), aad + b"x")
        if prefix:
            forged = b"X" + framed[1:]
            with pytest.raises(engine.InvalidTag):
                aead.open_framed(forged, len(prefix), aad)


def test_framed_in_pieces(algorithm: str) -> None:
    aead = engine.Aead(KEY, algorithm)
    long = TEXT * 1000
    for pieces in ([], [b""], [TEXT], [b"", TEXT, b"", b"!"], [long[:1], long[1:40000], long[40000:]], [b"x"] * 5000):
        whole = b"".join(pieces)
        assert aead.open_framed(aead.seal_framed(b"head", pieces, b"aad"), 4, b"aad") == whole


def test_framed_too_short(algorithm: str) -> None:
    aead = engine.Aead(KEY, algorithm)
    framed = aead.seal_framed(b"12345678", b"")
    assert len(framed) == 8 + aead.nonce_size + 16
    for size in range(len(framed)):
        message = f"message must be at least {len(framed)} bytes, not {size}"
        if size < 8:
            message = f"prefix_size must be from 0 to the message's {size} bytes, not 8"
        refused(ValueError, message, aead.open_framed, framed[:size], 8)
    refused(ValueError, "message must be at least", aead.open_framed, framed, 9)
    refused(ValueError, "prefix_size must be from 0 to the message's", aead.open_framed, framed, 2**63 - 1)


def test_framed_many(algorithm: str) -> None:
    aead = engine.Aead(KEY, algorithm)
    items: list[Any] = [(TEXT[:index], bytes([index])) for index in range(50)]
    items[7] = ([TEXT, b"", TEXT], b"")
    items[8] = (bytearray(TEXT), memoryview(b"view"))
    for given in (items, tuple(items)):
        framed = aead.seal_framed_many(b"prefix", given)
        assert type(framed) is list
        for message, (text, aad) in zip(framed, items, strict=True):
            assert aead.open_framed(message, 6, aad) == (b"".join(text) if isinstance(text, list) else bytes(text))
    assert len({message[6 : 6 + aead.nonce_size] for message in framed}) == len(items)
    assert aead.seal_framed_many(b"", []) == []


@pytest.mark.parametrize(
    "wrong", [None, b"ab", "ab", 3, [b"one", b"two"], (b"one",), (b"one", b"two", b"three")], ids=repr
)
def test_framed_many_with_a_wrong_item(algorithm: str, wrong: Any) -> None:
    aead = engine.Aead(KEY, algorithm)
    what = "each of items must be a tuple (plaintext, aad)"
    refused(TypeError, what, aead.seal_framed_many, b"", [(b"", b""), wrong])
    refused(TypeError, "aad must be bytes-like, not int", aead.seal_framed_many, b"", [(b"", b""), (b"", 3)])


def test_buffers_in_cyclic_garbage() -> None:
    """CPython's collector crashes on a memoryview that owns another one: none may come of a view, whole or sliced."""
    program = """
import gc
from engine.backends.arguments import buffer
for value in (memoryview(b"abc"), memoryview(b"abcdef")[2:4], memoryview(b""), memoryview(bytearray(8)).cast("I")):
    cycle = [buffer("value", value)]
    cycle.append(cycle)
    del cycle
    gc.collect()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
