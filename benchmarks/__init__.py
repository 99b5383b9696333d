"""Benchmarks of splitlib and its alternatives, run with ``python -m benchmarks``.

All contenders of a comparison run in turns, in one process, on the same tables.
"""
