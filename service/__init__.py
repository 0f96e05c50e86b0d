"""The Sealane service: HTTP, keys and storage around the engine."""
