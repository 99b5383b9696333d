"""Connector ``session``: tables as the catalogs of a Spark session have them.

Partitions come from whatever Spark is configured with (a metastore with its security, a vendor's
client, the catalog in memory of a plain local session), files from the session's own filesystems,
with its credentials. Its tables are the only ones that need no address.
"""

from splitlib.spark.session_catalog.connector import SessionConnector

__all__ = ["SessionConnector"]
