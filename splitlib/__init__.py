"""Dynamic partition pruning from Python: find the files of a table that match join keys.

``__all__`` lists the most used names of the public API. The error classes of
:mod:`splitlib.errors` and the classes of :mod:`splitlib.coordination`, which distribute splits to
many readers, can be imported from here too. Names that need Spark are imported on first use, so
PySpark is optional.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from splitlib import coordination, errors
from splitlib._version import __version__
from splitlib.config import SplitConfig
from splitlib.coordination import DynamicFileSplitEnumerator
from splitlib.enumeration.enumerator import DynamicFileEnumerator, paths
from splitlib.errors import ConnectorNotInstalled as _ConnectorNotInstalled
from splitlib.errors import SplitlibError
from splitlib.errors import UnsupportedTable as _UnsupportedTable
from splitlib.filtering.collector import DynamicFilteringDataCollector
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.data import DynamicFilteringEvent as DynamicFilteringEvent
from splitlib.model import FileSplit
from splitlib.model import ReadFormat as ReadFormat
from splitlib.registry import connector_names, load_table, register
from splitlib.report import Report
from splitlib.report import ScanMetrics as ScanMetrics
from splitlib.rows.table import ReadableTable as Table
from splitlib.telemetry import on_report

if TYPE_CHECKING:
    from splitlib.diagnosis.doctor import doctor
    from splitlib.merge import merge_condition
    from splitlib.spark.audit import audit
    from splitlib.spark.datasource.source import SplitlibDataSource
    from splitlib.spark.dimension import condition, freeze
    from splitlib.spark.read.reader import TableReader, analyze, read
    from splitlib.spark.sql import explain, optimize, replan, sql

ScanReport = Report  # the former name of Report, kept for existing code
# Names that are imported on first use. All except ``doctor`` need PySpark.
_LATE = {
    "SplitlibDataSource": "splitlib.spark.datasource.source",
    "TableReader": "splitlib.spark.read.reader",
    "analyze": "splitlib.spark.read.reader",
    "audit": "splitlib.spark.audit",
    "condition": "splitlib.spark.dimension",
    "doctor": "splitlib.diagnosis.doctor",
    "explain": "splitlib.spark.sql",
    "freeze": "splitlib.spark.dimension",
    "merge_condition": "splitlib.merge",
    "optimize": "splitlib.spark.sql",
    "read": "splitlib.spark.read.reader",
    "replan": "splitlib.spark.sql",
    "sql": "splitlib.spark.sql",
}

__all__ = [
    "DynamicFileEnumerator",
    "DynamicFileSplitEnumerator",
    "DynamicFilteringData",
    "DynamicFilteringDataCollector",
    "FileSplit",
    "Report",
    "SplitConfig",
    "SplitlibDataSource",
    "SplitlibError",
    "Table",
    "TableReader",
    "__version__",
    "analyze",
    "audit",
    "condition",
    "connector_names",
    "doctor",
    "explain",
    "freeze",
    "load_table",
    "merge_condition",
    "on_report",
    "optimize",
    "paths",
    "read",
    "register",
    "replan",
    "sql",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *errors.__all__, *coordination.__all__})


def __getattr__(name: str) -> Any:
    for module in (errors, coordination):
        if name in module.__all__:
            return getattr(module, name)
    if name not in _LATE:
        # Given `name` and `obj`, Python adds the module's most similar name to the message.
        module = sys.modules[__name__]
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=module)
    try:
        return getattr(importlib.import_module(_LATE[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        if error.name == "pyspark.sql.datasource":
            raise _UnsupportedTable(
                'format("splitlib") needs Spark 4, since Spark 3.5 has no data sources in Python.',
                hint="use splitlib.read(spark), which reads the same tables.",
            ) from error
        raise _ConnectorNotInstalled(
            f"splitlib.{name} needs PySpark.", hint="pip install 'splitlib[spark]'"
        ) from error
