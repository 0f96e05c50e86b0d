"""Benchmarks against peers: the engine per call from Python, the service over HTTP. Every figure is a ratio in one
run, because absolute times mean nothing on a shared machine."""
