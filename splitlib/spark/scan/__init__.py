"""Exactly the given files as a DataFrame."""
