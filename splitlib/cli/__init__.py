"""The command line: ``splitlib tables|partitions|plan|explain|config|demo``."""

from splitlib.cli.app import main

__all__ = ["main"]
