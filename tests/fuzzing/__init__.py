"""Fuzz tests for decoders of untrusted bytes and text: ``make fuzz``.

Each module of :mod:`tests.fuzzing.targets` is a target. Its ``run`` decodes bytes and uses the
result, ``seeds`` returns well-formed inputs, and ``TOKENS`` lists words of the format. ``corpus``
has a directory of interesting inputs for each target. The unit tests run them again.
"""
