"""Benchmarks: every figure a ratio or a count taken in one run. ``python -m benchmarks NAME --json``."""
