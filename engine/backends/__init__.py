"""Backends of the engine: one module each."""
