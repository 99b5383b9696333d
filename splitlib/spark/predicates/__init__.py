"""Convert conditions to partition and file filters, and join keys to conditions on rows."""
