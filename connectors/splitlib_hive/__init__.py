"""Tables of a Hive metastore: partition names first, details of those that match, then files.

The modules from the top down: ``connector`` is what the engine calls; ``table`` reads schema and
format out of the metastore's answers; ``client`` makes the calls, on any of several addresses;
``connection`` is one of them, on which every answer has a deadline.
"""

from splitlib_hive.connector import HiveConnector

__all__ = ["HiveConnector"]
