"""Collect the join keys of a DataFrame that is deterministic."""
