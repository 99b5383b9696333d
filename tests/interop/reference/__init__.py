"""Reference tables, written and read by Iceberg's own Java code, with the rows it reads from them.

Runs in a session of its own, on the newest PySpark that Iceberg has a runtime for; nothing here may
need more than PySpark.
"""

from __future__ import annotations

from tests.interop.reference.recipe import TABLES as TABLES
from tests.interop.reference.tables import (  # noqa: F401 - each registers its tables
    bounds,
    equality_deletes,
    migrated,
    odd_names,
    partitions,
    position_deletes,
    schemas,
    specs,
    versions,
)
