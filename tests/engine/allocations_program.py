"""Run by test_allocations.py: prints how many allocations each call makes once it has run for a while."""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any

import engine

so_far = ctypes.CDLL(None).allocations_so_far
so_far.restype = ctypes.c_ulong


def per_call(size: int, call: Callable[..., Any], *arguments: Any) -> float:
    """Twice as many turns less as many turns: what counting itself allocates cancels out."""
    few = 300 if size < 2000 else 40
    counts = []
    for turns in (few, few, 2 * few):
        start = so_far()
        for _ in itertools.repeat(None, turns):
            call(*arguments)
        counts.append(so_far() - start)
    return (counts[2] - counts[1]) / few


def main() -> None:
    results = {}
    for algorithm in ("xchacha20-poly1305", "chacha20-poly1305"):
        aead = engine.Aead(bytes(32), algorithm)
        nonce = bytes(aead.nonce_size)
        # An int above 256 is an object of its own: what each call returns.
        for size in (0, 64, 200, 1350, 16384, 200_000):
            text, out = bytearray(size), bytearray(size + 16)
            sealed = aead.seal(nonce, text, b"aad")
            name = f"{algorithm} {size} bytes"
            results[f"seal_into, {name}"] = per_call(size, aead.seal_into, nonce, text, out, b"aad") - (size + 16 > 256)
            results[f"open_into, {name}"] = per_call(size, aead.open_into, nonce, sealed, out, b"aad") - (size > 256)
            results[f"seal, {name}"] = per_call(size, aead.seal, nonce, text, b"aad")
    for size in (1, 16, 64, 1000, 16384, 200_000):
        mac = engine.Poly1305(bytes(32))
        results[f"update, {size} bytes"] = per_call(size, mac.update, bytearray(size))
    aead, nonce = engine.Aead(bytes(32), "chacha20-poly1305"), bytes(12)
    for chunks in (1, 4, 16):
        text = bytes(chunks * 16384)
        sealed = aead.seal_chunks(nonce, 0, text)
        results[f"seal_chunks, {chunks}"] = per_call(len(text), aead.seal_chunks, nonce, 0, text)
        results[f"open_chunks, {chunks}"] = per_call(len(text), aead.open_chunks, nonce, 0, sealed)
        results[f"verify_chunks, {chunks}"] = per_call(len(text), aead.verify_chunks, nonce, 0, sealed)
    json.dump(results, sys.stdout)


main()
