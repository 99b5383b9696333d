"""Star joins found in any query, and the partitions that they cannot meet left out."""
