"""The command line: ``splitlib tables``, ``splitlib plan`` and other commands.

``app`` parses and runs a command, rewrites hints, and sets up shell completion. ``plan``,
``export``, ``tables`` and ``setup`` define the commands. ``arguments`` defines the options that
commands share, shows progress and writes JSON. ``filters`` parses filters from text and files.
"""

from splitlib.cli.app import main

__all__ = ["main"]
