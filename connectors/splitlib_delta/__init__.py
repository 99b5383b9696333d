"""Connector for Delta Lake tables, planned from their transaction logs.

The modules, in the order in which a query uses them:

1. ``connector``: implements the connector interface, with the help of the other modules.
2. ``versions``: lists the log, and chooses a version and the log files that describe it.
3. ``log``: reads these log files. ``actions`` converts their entries to Arrow columns.
4. ``schema``: checks the table's protocol, and converts its columns to Arrow.
5. ``statistics``: converts the file statistics of the columns that the predicate uses.
6. ``deletion_vectors``: finds and decodes the positions of deleted rows.
"""

from splitlib_delta.connector import DeltaConnector

__all__ = ["DeltaConnector"]
