"""Connector for Delta Lake tables, planned from their transaction logs.

The modules, in the order in which a query uses them:

1. ``connector``: implements the interface, with the help of the other modules.
2. ``versions``: lists the log, and chooses a version and the files that describe it.
3. ``log``: reads these files. ``actions`` converts their entries to Arrow columns.
4. ``schema``: checks the protocol, and converts the columns.
5. ``statistics``: converts the statistics of files, for the columns with keys.
6. ``deletion_vectors``: finds and decodes the positions of deleted rows.
"""

from splitlib_delta.connector import DeltaConnector

__all__ = ["DeltaConnector"]
