"""Run by test_secret_memory.py, which looks into its memory. A key comes by the pipe; the engine alone keeps it."""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

import engine

NOBODY = 65534


def say(word: str) -> None:
    """Tells the test how far it is, and waits until the test has looked."""
    os.write(1, word.encode() + b"\n")
    os.read(0, 1)


def key_from_pipe() -> bytearray:
    """32 bytes that no bytes object ever held."""
    key = bytearray(32)
    if os.readv(0, [key]) != 32:
        raise SystemExit("wanted 32 bytes of key")
    return key


def without_locked_memory() -> None:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    if os.geteuid() == 0:  # whose capability is above the limit
        os.setgroups([])
        os.setuid(NOBODY)


def main() -> None:
    kind, limit = sys.argv[1:]
    warm: list[Any] = [engine.Aead(bytes(32)), engine.MacKey(bytes(32)), engine.Poly1305(bytes(32))]
    if limit == "no-lock":
        without_locked_memory()
        warm += [engine.Aead(bytes(32)) for _ in range(2100)]  # beyond what was locked before
        warm += [engine.Poly1305(bytes(32)) for _ in range(40)]
    key = key_from_pipe()
    holder: Any
    if kind == "aead":
        holder = engine.Aead(key)
    elif kind == "mac-key":
        holder = engine.MacKey(key)
    else:
        holder = engine.Poly1305(key)
    key[:] = bytes(32)
    say("held")
    message = bytes(range(256)) * 300
    for size in (0, 64, 500, 1350, len(message)):
        if kind == "aead":
            holder.open(bytes(24), holder.seal(bytes(24), message[:size]))
        elif kind == "mac-key":
            mac = holder.start(bytes(24))
            mac.update(message[:size])
            mac.digest()
        else:
            holder.update(message[:size])
    say("used")
    del holder
    say("released")
    del warm


main()
