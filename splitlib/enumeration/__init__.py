"""One pass over a table: list partitions, match, load details, list files, split."""
