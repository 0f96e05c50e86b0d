"""Python looks for C libraries by ldconfig, a compiler or a linker, and none of them is in the image: tell it where
psycopg's is. The loader finds it without help."""

import ctypes.util

_find_library = ctypes.util.find_library


def find_library(name: str) -> str | None:
    return "libpq.so.5" if name == "pq" else _find_library(name)


ctypes.util.find_library = find_library
