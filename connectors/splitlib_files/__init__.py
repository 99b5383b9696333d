"""Connector for directories in Hive layout (``root/k1=v1/k2=v2/file``) on any fsspec filesystem.

This is the reference connector: copy this folder to write your own connector. ``connector``
implements the connector interface. ``walk`` finds the partitions by listing directories. If the
user does not declare the partition keys, ``layout`` finds them with the help of ``names`` and
``key_types``. If the user does not declare the columns, ``schema`` reads them from the data files.
A connector for a catalog requests partitions, keys and columns from the catalog instead.
"""

from splitlib_files.connector import FilesConnector

__all__ = ["FilesConnector"]
