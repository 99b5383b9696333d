"""``splitlib doctor``: check what splitlib needs on this machine.

``machine`` checks Python, Java, PySpark, installed packages and extras. ``sources`` checks a Spark
session, settings, catalogs, storage and the clock.
"""
