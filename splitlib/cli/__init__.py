"""The command line: ``splitlib tables|partitions|plan|explain|config|demo``.

``app`` parses and runs a command, each of which is a module of its own name; ``arguments`` and
``enumerating`` are what they share, ``filters`` turns text into filters.
"""

from splitlib.cli.app import main

__all__ = ["main"]
