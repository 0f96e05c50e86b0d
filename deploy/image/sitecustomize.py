"""Python looks for C libraries by ldconfig, a compiler or a linker, and none of them is in the image: tell it what
psycopg's are called. The loader finds them without help."""

import ctypes.util

_KNOWN = {"c": "libc.so.6", "pq": "libpq.so.5"}
_find_library = ctypes.util.find_library


def find_library(name: str) -> str | None:
    return _KNOWN.get(name) or _find_library(name)


ctypes.util.find_library = find_library
