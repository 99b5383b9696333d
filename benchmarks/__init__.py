"""Benchmarks of splitlib and its alternatives, run with ``python -m benchmarks``.

Each benchmark compares contenders, that is programs or queries with the same result. They run in
turns on the same tables.
"""
