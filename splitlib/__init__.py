"""Dynamic partition pruning from Python: join keys in, exactly the matching files out.

What touches Spark is imported when it is first used; without it the package needs no PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from splitlib._version import __version__
from splitlib.assigners import FifoAssigner, LargestFirstAssigner, LocalityAssigner, SplitAssigner
from splitlib.collector import DynamicFilteringDataCollector
from splitlib.config import SplitConfig
from splitlib.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    NoMoreSplits,
    RequestIgnored,
    WaitForSplits,
)
from splitlib.enumerator import DynamicFileEnumerator, paths
from splitlib.errors import (
    AccessDenied,
    ConfigError,
    ConnectorNotFound,
    ConnectorNotInstalled,
    CorruptMetadata,
    InvalidCheckpoint,
    InvalidFilter,
    MissingFile,
    MissingPartition,
    NonDeterministicDimension,
    SnapshotNotFound,
    SourceError,
    SourceUnavailable,
    SplitlibError,
    TableNotFound,
    TooManyPartitions,
    UnsupportedTable,
)
from splitlib.filtering import DynamicFilteringData, DynamicFilteringEvent
from splitlib.metrics import ScanMetrics
from splitlib.model import FileSplit, ReadFormat
from splitlib.registry import connector_names, load_table, register
from splitlib.report import ScanReport
from splitlib.table import Table

if TYPE_CHECKING:
    from splitlib.spark.automatic import optimize, sql
    from splitlib.spark.datasource import SplitlibDataSource
    from splitlib.spark.explained import explain, replan
    from splitlib.spark.freeze import freeze
    from splitlib.spark.reader import read

_SPARK = {
    "SplitlibDataSource": "splitlib.spark.datasource",
    "explain": "splitlib.spark.explained",
    "freeze": "splitlib.spark.freeze",
    "optimize": "splitlib.spark.automatic",
    "read": "splitlib.spark.reader",
    "replan": "splitlib.spark.explained",
    "sql": "splitlib.spark.automatic",
}

__all__ = [
    "AccessDenied",
    "AssignedSplit",
    "ConfigError",
    "ConnectorNotFound",
    "ConnectorNotInstalled",
    "CorruptMetadata",
    "DynamicFileEnumerator",
    "DynamicFileSplitEnumerator",
    "DynamicFilteringData",
    "DynamicFilteringDataCollector",
    "DynamicFilteringEvent",
    "FifoAssigner",
    "FileSplit",
    "InvalidCheckpoint",
    "InvalidFilter",
    "LargestFirstAssigner",
    "LocalityAssigner",
    "MissingFile",
    "MissingPartition",
    "NoMoreSplits",
    "NonDeterministicDimension",
    "ReadFormat",
    "RequestIgnored",
    "ScanMetrics",
    "ScanReport",
    "SnapshotNotFound",
    "SourceError",
    "SourceUnavailable",
    "SplitAssigner",
    "SplitConfig",
    "SplitlibDataSource",
    "SplitlibError",
    "Table",
    "TableNotFound",
    "TooManyPartitions",
    "UnsupportedTable",
    "WaitForSplits",
    "__version__",
    "connector_names",
    "explain",
    "freeze",
    "load_table",
    "optimize",
    "paths",
    "read",
    "register",
    "replan",
    "sql",
]


def __getattr__(name: str) -> Any:
    if name not in _SPARK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_SPARK[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise ConnectorNotInstalled(
            f"splitlib.{name} needs PySpark.", hint="pip install 'splitlib[spark]'"
        ) from error
