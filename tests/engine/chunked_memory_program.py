"""Run by test_chunked_memory.py: a stream of argv[1] MiB; prints its size and the peak of resident memory in KiB."""

from __future__ import annotations

import sys
from pathlib import Path

import engine

MIB = 1024 * 1024


def main() -> None:
    block = bytes(MIB)
    sealer = engine.ChunkedSealer(bytes(32))
    opener, verifier = (kind(bytes(32), sealer.header) for kind in (engine.ChunkedOpener, engine.ChunkedVerifier))
    size = 0
    for _ in range(int(sys.argv[1])):
        sealed = sealer.update([block[:-5], block[:5]])
        verifier.update(sealed)
        size += len(opener.update(sealed))
    last = sealer.finish(b"end")
    verifier.finish(last)
    size += len(opener.finish(last))
    # Not ru_maxrss, which begins with what the parent had.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(size, status["VmHWM"].split()[0])


main()
