"""A few calls of everything the extension offers, and of its errors, for valgrind to watch. --lose loses an object."""

import contextlib
import ctypes
import gc
import sys

from engine import _native

KEY, NONCE, NONCE12 = bytes(range(32)), bytes(24), bytes(12)


def messages() -> None:
    for algorithm, nonce in (("xchacha20-poly1305", NONCE), ("chacha20-poly1305", NONCE12)):
        aead = _native.Aead(KEY, algorithm)
        for size in (0, 1, 64, 1350, 20000):
            message = bytes(size)
            sealed = aead.seal(nonce, message, b"aad")
            assert aead.open(nonce, sealed, b"aad") == message
            out = bytearray(size + 16)
            assert aead.seal_into(nonce, message, out, b"aad") == size + 16
            assert bytes(out) == sealed
            assert aead.open_into(nonce, out, out, aad=b"aad") == size
            framed = aead.seal_framed(b"prefix", [message, bytearray(b"more")], b"aad")
            assert aead.open_framed(framed, 6, b"aad") == message + b"more"
            many = aead.seal_framed_many(b"prefix", [(message, b""), (b"x", b"y")] * 40)
            assert len(many) == 80
            with contextlib.suppress(_native.InvalidTag):
                aead.open(nonce, sealed)
        for wrong in ((b"", b""), (nonce, "text"), (nonce, 5), (None, b"")):
            with contextlib.suppress(TypeError, ValueError):
                aead.seal(*wrong)
        with contextlib.suppress(ValueError):
            aead.open(nonce, b"short")
        with contextlib.suppress(TypeError):
            aead.seal(nonce, b"", b"", b"", nothing=1)


def macs() -> None:
    for mac in (_native.Poly1305(KEY), _native.MacKey(KEY).start(NONCE)):
        for size in (0, 1, 64, 700, 5000, 20000):
            mac.update(bytes(size))
        other = _native.Poly1305.from_state(mac.export_state())
        assert mac.digest() == other.digest()
        with contextlib.suppress(_native.InvalidTag):
            other.verify(bytes(16))
        with contextlib.suppress(ValueError):
            mac.update(b"")
    for state in (bytes(66), bytes(65)):
        with contextlib.suppress(ValueError):
            _native.Poly1305.from_state(state)


def functions() -> None:
    assert _native.chacha20_xor(KEY, NONCE12, _native.chacha20_xor(KEY, NONCE12, b"x" * 3000, 7), 7) == b"x" * 3000
    assert len(_native.hchacha20(KEY, bytes(16))) == 32
    for wrong in ((KEY, NONCE12, b"", -1), (KEY, b"", b""), (b"", NONCE12, b"")):
        with contextlib.suppress(ValueError):
            _native.chacha20_xor(*wrong)
    _native.cpu_features()
    with contextlib.suppress(ValueError):
        _native.use_kernel("none")


for kernel in _native.kernels():
    _native.use_kernel(kernel)
    messages()
    macs()
    functions()
if "--lose" in sys.argv:  # on purpose, to show that it is seen
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_native.MacKey(KEY)))
gc.collect()
print("the extension's calls are done on", *_native.kernels())
