"""The command line: ``splitlib tables|partitions|plan|explain|config|demo``.

``app`` parses and runs a command. Each command has its own module. They share ``arguments`` and
``enumerating``. ``filters`` parses filters.
"""

from splitlib.cli.app import main

__all__ = ["main"]
