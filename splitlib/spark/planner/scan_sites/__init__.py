"""Scans that join keys can prune, with a class for each kind of table."""
