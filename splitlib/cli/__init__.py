"""The command line: ``splitlib tables|partitions|plan|explain|audit|config|doctor|demo``.

``app`` parses and runs a command. Each command has its own module. ``arguments`` has the options
that commands share, ``keys`` parses filters from text and files, ``spelling`` rewrites hints,
``completion`` writes scripts for shells, and ``output`` shows progress and writes JSON.
"""

from splitlib.cli.app import main

__all__ = ["main"]
