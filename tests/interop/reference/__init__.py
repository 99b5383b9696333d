"""Reference tables, written and read by Iceberg's own Java code, with the rows it returns.

They are written in a separate session of the newest PySpark with an Iceberg runtime. This code must
need only PySpark.
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
