from __future__ import annotations

import os
import subprocess
import sys

import pytest

import splitlib

PUBLIC = """
AccessDenied AssignedSplit ConfigError ConnectorNotFound ConnectorNotInstalled CorruptMetadata
DynamicFileEnumerator DynamicFileSplitEnumerator DynamicFilteringData
DynamicFilteringDataCollector DynamicFilteringEvent FifoAssigner FileChanged FileSplit
InvalidCheckpoint InvalidFilter LargestFirstAssigner LocalityAssigner LocationNotAllowed
MissingFile MissingPartition NoMoreSplits NonDeterministicDimension ReadFormat RequestIgnored
ScanMetrics ScanReport SnapshotNotFound
SourceError SourceUnavailable SplitAssigner SplitConfig SplitlibDataSource SplitlibError Table
TableNotFound TooManyPartitions UnsupportedTable WaitForSplits __version__ condition connector_names
explain freeze load_table merge_condition optimize paths read register replan sql
"""


def test_public_names():
    assert sorted(splitlib.__all__) == sorted(PUBLIC.split())


def run(code):
    # the source roots, when the package is not installed
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


# Everything that is not splitlib.spark, imported with PySpark hidden.
IMPORT_CORE = """
import importlib, pkgutil, sys
sys.modules["pyspark"] = None
import splitlib, splitlib_files, splitlib_hive, splitlib_iceberg
for package in (splitlib, splitlib_files, splitlib_hive, splitlib_iceberg):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.startswith("splitlib.spark") and "__main__" not in module.name:
            importlib.import_module(module.name)
"""


def test_the_core_never_imports_pyspark():
    done = run(IMPORT_CORE)
    assert done.returncode == 0, done.stderr


def test_without_pyspark_the_error_names_the_package():
    done = run("import sys; sys.modules['pyspark'] = None\nimport splitlib; splitlib.read")
    assert "pip install 'splitlib[spark]'" in done.stderr


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        splitlib.reed()
