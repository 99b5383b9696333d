"""``splitlib.read``: one table, its filters, its rows."""
