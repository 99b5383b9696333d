"""A module for each decoder; see :mod:`tests.fuzzing`.

``run(data)`` is True if the bytes were used, False if they were refused by an error that is
documented. Whatever else it raises is a bug.
"""
