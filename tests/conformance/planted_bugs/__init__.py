"""The kit on connectors that are wrong on purpose, each with the tests that must fail.

Run by ``test_kit.py``, which expects the failures; pytest does not find them by their names.
"""
