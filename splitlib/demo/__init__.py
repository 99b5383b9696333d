"""The demo: ``data`` generates TPC-DS tables, ``run`` queries them, ``report`` compares results."""
