#!/usr/bin/env python3
"""What two threads that seal at once are worth against one, by size: what releasing the GIL brings, and from where on.

python tests/bench/threads.py
"""

import os
import threading
import time

import engine

SIZES = (4096, 8192, 16384, 32768, 65536, 262144)
ROUNDS = 5


def main() -> None:
    aead = engine.Aead(os.urandom(32))
    nonce = bytes(aead.nonce_size)

    def seal(data: bytes, count: int) -> None:
        for _ in range(count):
            aead.seal(nonce, data)

    for size in SIZES:
        data, count = os.urandom(size), max(50, 40_000_000 // size)
        alone = together = float("inf")
        for _ in range(ROUNDS):
            start = time.perf_counter()
            seal(data, 2 * count)
            alone = min(alone, time.perf_counter() - start)
            threads = [threading.Thread(target=seal, args=(data, count)) for _ in range(2)]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            together = min(together, time.perf_counter() - start)
        each = alone / (2 * count) * 1e6
        print(f"{size:7d} bytes: {each:6.2f} us a call alone, two threads {alone / together:.2f} times")


if __name__ == "__main__":
    main()
