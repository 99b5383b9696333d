"""Splits handed out to many readers, while the listing and the filters are still on their way.

``prefetch`` enumerates ahead in a thread, the ``coordinator`` takes in what it finds, an assigner
of ``assigners`` chooses who reads what, and a ``checkpoint`` holds what has not been read yet.
"""
