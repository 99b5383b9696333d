"""Find star joins in any query, and prune the partitions that the joins cannot match."""
