"""``splitlib doctor``: check what splitlib needs on this machine.

``finding`` is the result of a check. ``machine`` checks Python, Java and PySpark, ``packages`` the
installed packages and extras, ``sources`` settings, catalogs, storage and clock, and ``session`` a
Spark session.
"""
