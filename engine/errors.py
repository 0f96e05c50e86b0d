"""The one exception of the engine that is not a builtin."""

try:
    # The extension raises its own object from C, so that object has to be the one definition.
    from engine._native import InvalidTag
except ImportError:

    class InvalidTag(Exception):  # type: ignore[no-redef]
        """A tag does not verify: wrong key, nonce, AAD, ciphertext or tag; which of them is not told."""


__all__ = ["InvalidTag"]
