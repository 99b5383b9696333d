"""Fuzz targets, with one module for each decoder (see :mod:`tests.fuzzing`).

``run(data)`` of a target returns True if the bytes were decoded and used. It returns False if a
documented error refused them. Any other exception is a bug.
"""
