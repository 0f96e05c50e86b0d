"""Checks of arguments for backends in Python: one wording for all; the native extension has its own in C."""

from __future__ import annotations

import functools
import operator
from pickle import PickleBuffer
from typing import TYPE_CHECKING

from engine.protocol import NONCE_SIZES

if TYPE_CHECKING:
    import ctypes

    from typing_extensions import Buffer

    from engine.protocol import Buffers


def buffer(name: str, value: Buffer) -> memoryview:
    """The memory of a contiguous buffer of any item type, as bytes; nothing is copied."""
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"{name} must be bytes-like, not {type(value).__name__}") from None
    if not view.c_contiguous:
        raise ValueError(f"{name} must be contiguous")
    if not view.nbytes:
        return memoryview(bytearray())
    try:
        return view.cast("B")
    except (TypeError, ValueError):
        # Formats such as ctypes' "<c". Never over another memoryview: CPython's collector crashes on one that owns one.
        owner = view.obj if isinstance(value, memoryview) else value
        return PickleBuffer(owner).raw()[: view.nbytes]


def joined(name: str, value: Buffers) -> memoryview:
    """A buffer as it is, or the concatenation of a list of them."""
    if not isinstance(value, list):
        return buffer(name, value)
    pieces = [buffer(f"{name} piece", piece) for piece in value]
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def sized(name: str, value: Buffer, size: int) -> bytes:
    """The bytes of a buffer that must be exactly ``size`` long."""
    view = buffer(name, value)
    if view.nbytes != size:
        raise ValueError(f"{name} must be {size} bytes, not {view.nbytes}")
    return bytes(view)


def at_least(name: str, value: Buffer, size: int) -> memoryview:
    view = buffer(name, value)
    if view.nbytes < size:
        raise ValueError(f"{name} must be at least {size} bytes, not {view.nbytes}")
    return view


def at_most(name: str, value: Buffer, size: int) -> memoryview:
    """For what ChaCha20 encrypts, where only the 32-bit counter sets a limit."""
    view = buffer(name, value)
    if view.nbytes > size:
        never_wraps = "so that the block counter never wraps"
        raise ValueError(f"{name} must be at most {size} bytes, {never_wraps}, not {view.nbytes}")
    return view


def integer(name: str, value: int, lowest: int, highest: int, highest_is: str = "{}") -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None
    if not lowest <= number <= highest:
        raise ValueError(f"{name} must be from {lowest} to {highest_is.format(highest)}, not {number}")
    return number


def algorithm(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"algorithm must be a string, not {type(value).__name__}")
    if value not in NONCE_SIZES:
        raise ValueError(f"algorithm must be {' or '.join(map(repr, NONCE_SIZES))}, not {value!r}")
    return value


def output(out: Buffer, size: int, source: memoryview) -> memoryview:
    """The first ``size`` bytes of a writable buffer that does not overlap ``source``, unless they start together."""
    try:
        view = buffer("out", out)
        writable = not view.readonly
    except ValueError:
        writable = False
    if not writable:
        raise ValueError("out must be contiguous and writable")
    if view.nbytes < size:
        raise ValueError(f"out must be at least {size} bytes, not {view.nbytes}")
    view = view[:size]
    if view.nbytes and source.nbytes:
        start, source_start = _address(view), _address(source)
        apart = start + view.nbytes <= source_start or source_start + source.nbytes <= start
        if start != source_start and not apart:
            raise ValueError("out must begin where the input begins, or not overlap it")
    return view


def _address(view: memoryview) -> int:
    """Where the bytes are. ctypes.from_buffer would do, but refuses read-only memory."""
    import ctypes

    filled = _py_buffer()()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(filled), 0)
    address = ctypes.c_void_p.from_buffer(filled).value or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(filled))
    return address


@functools.cache
def _py_buffer() -> type[ctypes.Structure]:
    """struct Py_buffer, part of the stable ABI; its first field is the address."""
    import ctypes

    class PyBuffer(ctypes.Structure):
        _fields_ = (
            ("buf", ctypes.c_void_p),
            ("obj", ctypes.c_void_p),
            ("len", ctypes.c_ssize_t),
            ("itemsize", ctypes.c_ssize_t),
            ("readonly", ctypes.c_int),
            ("ndim", ctypes.c_int),
            ("format", ctypes.c_void_p),
            ("shape", ctypes.c_void_p),
            ("strides", ctypes.c_void_p),
            ("suboffsets", ctypes.c_void_p),
            ("internal", ctypes.c_void_p),
        )

    return PyBuffer
