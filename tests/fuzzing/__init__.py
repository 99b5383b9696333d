"""Bytes and text from elsewhere, given to what decodes them: ``make fuzz``.

Each module of :mod:`tests.fuzzing.targets` is a target: ``run`` decodes some bytes and uses what
comes of it, ``seeds`` has well-formed ones, ``TOKENS`` words of their language. What was worth
keeping stands in ``corpus``, a directory for each target, and is tried again by the tests.
"""
