from __future__ import annotations

import os
import subprocess
import sys

import pytest

import splitlib
from splitlib import coordination, errors

PUBLIC = """
DynamicFileEnumerator DynamicFileSplitEnumerator DynamicFilteringData DynamicFilteringDataCollector
FileSplit Report SplitConfig SplitlibDataSource SplitlibError Table TableReader __version__
analyze audit condition connector_names doctor explain freeze load_table merge_condition on_report
optimize paths read register replan sql
"""


def test_public_names():
    assert sorted(splitlib.__all__) == sorted(PUBLIC.split())


def test_other_names_that_can_be_imported_from_the_package():
    """The package still exports names that were public here and are now documented elsewhere."""
    names = {*errors.__all__, *coordination.__all__}
    names |= {"DynamicFilteringEvent", "ReadFormat", "ScanMetrics"}
    for name in names:
        assert getattr(splitlib, name).__name__ == name
    assert splitlib.ScanReport is splitlib.Report


def run(code):
    # The new process may need this path, because splitlib may not be installed.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


# This script imports all modules outside of ``splitlib.spark``. PySpark cannot be imported in it.
IMPORT_CORE = """
import importlib, pkgutil, sys
sys.modules["pyspark"] = None
import splitlib, splitlib_delta, splitlib_files, splitlib_glue, splitlib_hive, splitlib_iceberg
packages = (
    splitlib, splitlib_delta, splitlib_files, splitlib_glue, splitlib_hive, splitlib_iceberg
)
for package in packages:
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
