"""``splitlib.read``: read one table with filters as a DataFrame."""
