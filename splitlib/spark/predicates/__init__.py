"""Conditions: how they prune partitions, and how join keys become conditions on rows."""
