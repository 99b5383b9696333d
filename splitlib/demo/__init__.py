"""The demo: ``run`` one TPC-DS query on ``data`` in three ways, and ``report`` the results."""
