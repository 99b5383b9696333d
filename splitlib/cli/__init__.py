"""The command line: ``splitlib tables|partitions|plan|explain|audit|config|doctor|demo``.

``app`` parses and runs a command. Each command has its own module. ``arguments`` has the options
that commands share, ``filters`` parses filters, ``keys`` reads them from files, ``spelling``
rewrites hints, ``progress`` shows a progress line, ``jsonlines`` writes JSON, and ``plan_formats``
writes plans.
"""

from splitlib.cli.app import main

__all__ = ["main"]
