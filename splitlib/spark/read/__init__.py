"""``splitlib.read``: read one table as a DataFrame, pruned by filters."""
