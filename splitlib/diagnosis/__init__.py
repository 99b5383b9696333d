"""``splitlib.doctor``: check this machine's software, settings and access to tables.

``doctor`` runs all checks. ``machine`` checks Python, Java, PySpark, packages and extras.
``sources`` checks settings, catalogs, storage and the clock. ``session`` starts a Spark session,
and checks a session.
"""
