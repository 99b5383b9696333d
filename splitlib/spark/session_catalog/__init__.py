"""Connector ``session``: tables from the catalogs of a Spark session.

Partitions come from the session's catalog: a metastore, a vendor's catalog or the in-memory catalog
of a local session. Files are listed with the session's filesystems. The session's settings and
credentials are used for both, so this is the only connector whose tables need no URI.
"""

from splitlib.spark.session_catalog.connector import SessionConnector

__all__ = ["SessionConnector"]
