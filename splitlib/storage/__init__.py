"""List the data files of directories as Hive and Spark do, on a local disk or an object store.

Modules that need fsspec are imported on first use, because fsspec is slow to import.
"""

import importlib
from typing import TYPE_CHECKING, Any

from splitlib.storage.files import (
    SELECTING_OPTIONS,
    Level,
    StoredFile,
    file_batch,
    is_data,
    of_rows,
)
from splitlib.storage.locations import (
    AllowedLocations,
    is_restricted,
    local_path,
    located,
    only_within,
    refuse_files_outside,
    refuse_outside,
)
from splitlib.storage.options import connection_parts, nested_options, option_value

if TYPE_CHECKING:
    from splitlib.storage.filesystems import Links, OptionsByProtocol, modified
    from splitlib.storage.storage import Storage

_WITH_FSSPEC = {
    "Links": "filesystems",
    "OptionsByProtocol": "filesystems",
    "Storage": "storage",
    "modified": "filesystems",
}

__all__ = [
    "SELECTING_OPTIONS",
    "AllowedLocations",
    "Level",
    "Links",
    "OptionsByProtocol",
    "Storage",
    "StoredFile",
    "connection_parts",
    "file_batch",
    "is_data",
    "is_restricted",
    "local_path",
    "located",
    "modified",
    "nested_options",
    "of_rows",
    "only_within",
    "option_value",
    "refuse_files_outside",
    "refuse_outside",
]


def __getattr__(name: str) -> Any:
    if name not in _WITH_FSSPEC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WITH_FSSPEC[name]}"), name)
