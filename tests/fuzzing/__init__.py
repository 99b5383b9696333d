"""Fuzz tests for decoders of untrusted bytes and text (``make fuzz``).

Each module of :mod:`tests.fuzzing.targets` is a target, that is a decoder to test. Its function
``run`` decodes bytes and uses the result, ``seeds`` returns valid inputs, and ``TOKENS`` lists
words of the format. The directory ``corpus`` stores inputs that run unusual code, for each target.
The unit tests run them again.
"""
