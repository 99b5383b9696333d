"""splitlib measured side by side with what it is an alternative to: ``python -m benchmarks``.

All contenders of a comparison run in one process, in turns, on the same tables.
"""
