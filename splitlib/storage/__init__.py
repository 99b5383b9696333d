"""Listing directories of data files by Hive's and Spark's rules, on a disk or an object store."""

from splitlib.storage.files import (
    SELECTING_OPTIONS,
    Level,
    StoredFile,
    file_batch,
    is_data,
    of_rows,
)
from splitlib.storage.locations import local_path
from splitlib.storage.options import nested_options, option_value
from splitlib.storage.storage import OptionsByProtocol, Storage

__all__ = [
    "SELECTING_OPTIONS",
    "Level",
    "OptionsByProtocol",
    "Storage",
    "StoredFile",
    "file_batch",
    "is_data",
    "local_path",
    "nested_options",
    "of_rows",
    "option_value",
]
