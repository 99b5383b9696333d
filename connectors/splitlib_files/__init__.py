"""Directories in Hive layout (``root/k1=v1/k2=v2/file``) on any fsspec filesystem.

The reference connector: copy this folder to start one of your own.
"""

from splitlib_files.connector import FilesConnector

__all__ = ["FilesConnector"]
