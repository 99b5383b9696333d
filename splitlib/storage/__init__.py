"""List the data files in directories as Hive and Spark do, on a local disk or an object store.

Modules that need fsspec or PyArrow are imported on first use, because these are slow to import.
"""

import importlib
from typing import TYPE_CHECKING, Any

from splitlib.storage.clients import (
    in_forks_of_this,
    joined_options,
    nested_options,
    option_value,
    options_of_text,
)
from splitlib.storage.files import (
    SELECTING_OPTIONS,
    STREAM_LOG,
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
    refuse_outside,
)

if TYPE_CHECKING:
    from splitlib.storage.clouds import AzureSettings
    from splitlib.storage.filesystems import Links, OptionsByProtocol, modified
    from splitlib.storage.s3 import S3Settings
    from splitlib.storage.storage import CLOUDS, Storage

_ON_FIRST_USE = {
    "CLOUDS": "storage",
    "AzureSettings": "clouds",
    "Links": "filesystems",
    "OptionsByProtocol": "filesystems",
    "S3Settings": "s3",
    "Storage": "storage",
    "modified": "filesystems",
}

__all__ = [
    "CLOUDS",
    "SELECTING_OPTIONS",
    "STREAM_LOG",
    "AllowedLocations",
    "AzureSettings",
    "Level",
    "Links",
    "OptionsByProtocol",
    "S3Settings",
    "Storage",
    "StoredFile",
    "file_batch",
    "in_forks_of_this",
    "is_data",
    "is_restricted",
    "joined_options",
    "local_path",
    "located",
    "modified",
    "nested_options",
    "of_rows",
    "only_within",
    "option_value",
    "options_of_text",
    "refuse_outside",
]


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ON_FIRST_USE[name]}"), name)
