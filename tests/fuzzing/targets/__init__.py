"""A module for each decoder; see :mod:`tests.fuzzing`.

``run(data)`` returns True if the bytes were decoded and used, and False if a documented error
refused them. Any other exception is a bug.
"""
