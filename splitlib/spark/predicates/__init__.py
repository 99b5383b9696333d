"""Conditions: what they say of partitions, and how rows are tested by keys."""
