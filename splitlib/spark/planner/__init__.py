"""Find the joins of any query, and prune the partitions that cannot match their join keys."""
