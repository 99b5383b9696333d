"""``splitlib doctor``: check this machine's software, settings and access to tables.

``machine`` checks Python, Java, PySpark, installed packages and extras. ``sources`` checks a Spark
session, settings, catalogs, storage and the clock.
"""
