"""The leaves of a plan that keys can prune, of each kind of table."""
