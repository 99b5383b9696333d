"""One pass over a table: list its partitions, match them, list their files, match again, split.

The ``enumerator`` is what users see. It keeps the ``received_filters`` and runs a ``pipeline``,
which yields ``selected_files``; ``splitting`` makes splits of them. A ``tally`` counts on the way,
for the ``metrics`` and the ``report``.
"""
