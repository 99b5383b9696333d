"""Reference tables that Iceberg's own Java code writes and reads. The rows it returns are recorded.

A separate Spark session with an Iceberg runtime writes the tables. Its environment contains only
PySpark, so this package must not import anything else.
"""

from __future__ import annotations

from tests.interop.reference.recipe import TABLES as TABLES
from tests.interop.reference.tables import (  # noqa: F401 - each module registers its tables
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
