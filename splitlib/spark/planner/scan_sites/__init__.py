"""Leaves of a plan that join keys can prune, for each kind of table."""
