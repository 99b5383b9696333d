"""Listing directories of data files by Hive's and Spark's rules, on a disk or an object store."""

from splitlib.storage.allowed import (
    AllowedLocations,
    is_restricted,
    only_within,
    refuse_files_outside,
    refuse_outside,
)
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
from splitlib.storage.storage import OptionsByProtocol, Storage, modified

__all__ = [
    "SELECTING_OPTIONS",
    "AllowedLocations",
    "Level",
    "OptionsByProtocol",
    "Storage",
    "StoredFile",
    "file_batch",
    "is_data",
    "is_restricted",
    "local_path",
    "modified",
    "nested_options",
    "of_rows",
    "only_within",
    "option_value",
    "refuse_files_outside",
    "refuse_outside",
]
