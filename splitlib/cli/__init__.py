"""The command line: ``splitlib tables|partitions|plan|explain|config|demo``.

``app`` parses and runs a command. Each command has its own module. ``arguments`` has the options
that commands share, ``filters`` parses filters, ``progress`` shows a progress line, and
``jsonlines`` writes JSON.
"""

from splitlib.cli.app import main

__all__ = ["main"]
