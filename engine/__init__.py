"""The engine: ChaCha20, Poly1305 and their AEADs. Knows nothing of HTTP, names of keys or storage."""
