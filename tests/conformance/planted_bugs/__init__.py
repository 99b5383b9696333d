"""The kit on connectors that are wrong on purpose, each with the tests that must fail.

Run by ``test_planted_bugs.py``, which expects failures; pytest does not find them by their names.
"""
