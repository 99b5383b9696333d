"""Dynamic partition pruning from Python: join keys in, exactly the matching files out.

Names that need Spark are imported on first use, so the package works without PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from splitlib._version import __version__
from splitlib.config import SplitConfig
from splitlib.coordination.assigners import (
    FifoAssigner,
    LargestFirstAssigner,
    LocalityAssigner,
    SplitAssigner,
)
from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    NoMoreSplits,
    RequestIgnored,
    WaitForSplits,
)
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.metrics import ScanMetrics
from splitlib.enumeration.paths import paths
from splitlib.enumeration.report import ScanReport
from splitlib.errors import (
    AccessDenied,
    ConfigError,
    ConnectorNotFound,
    ConnectorNotInstalled,
    CorruptMetadata,
    FileChanged,
    InvalidCheckpoint,
    InvalidFilter,
    LocationNotAllowed,
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
from splitlib.filtering.collector import DynamicFilteringDataCollector
from splitlib.filtering.data import DynamicFilteringData, DynamicFilteringEvent
from splitlib.loading import load_table
from splitlib.model import FileSplit, ReadFormat
from splitlib.registry import connector_names, register
from splitlib.table import Table

if TYPE_CHECKING:
    from splitlib.spark.condition import condition, merge_condition
    from splitlib.spark.datasource.source import SplitlibDataSource
    from splitlib.spark.explain import explain, replan
    from splitlib.spark.freeze import freeze
    from splitlib.spark.read.reader import read
    from splitlib.spark.sql import optimize, sql

_SPARK = {
    "SplitlibDataSource": "splitlib.spark.datasource.source",
    "condition": "splitlib.spark.condition",
    "explain": "splitlib.spark.explain",
    "freeze": "splitlib.spark.freeze",
    "merge_condition": "splitlib.spark.condition",
    "optimize": "splitlib.spark.sql",
    "read": "splitlib.spark.read.reader",
    "replan": "splitlib.spark.explain",
    "sql": "splitlib.spark.sql",
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
    "FileChanged",
    "FileSplit",
    "InvalidCheckpoint",
    "InvalidFilter",
    "LargestFirstAssigner",
    "LocalityAssigner",
    "LocationNotAllowed",
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
    "condition",
    "connector_names",
    "explain",
    "freeze",
    "load_table",
    "merge_condition",
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
