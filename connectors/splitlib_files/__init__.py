"""Directories in Hive layout (``root/k1=v1/k2=v2/file``) on any fsspec filesystem.

The reference connector: copy this folder to start one of your own. ``connector`` has a method for
each question of the engine. ``walk`` finds the partitions, where yours may ask a catalog instead,
and ``schema`` finds columns and keys that nobody has declared, which a catalog knows.
"""

from splitlib_files.connector import FilesConnector

__all__ = ["FilesConnector"]
