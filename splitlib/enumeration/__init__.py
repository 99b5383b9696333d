"""One pass over a table: list its partitions, match them, list their files, match again, split.

The ``enumerator`` is the public class. It keeps the ``received_filters`` and runs a ``pipeline``,
which yields ``selected_files``; ``splitting`` turns these into splits. A ``tally`` counts events
for the ``metrics`` and the ``report``.
"""
