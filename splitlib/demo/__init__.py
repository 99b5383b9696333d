"""What ``splitlib demo`` runs: one query on TPC-DS ``data`` in three ways, and a ``report``."""
