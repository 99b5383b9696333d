"""Collect the join keys of a deterministic DataFrame: distinct values, or intervals."""
