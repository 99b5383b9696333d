"""The cost of ``import splitlib``, which every script and every Python worker of Spark pays."""

from __future__ import annotations

import json
import os
import subprocess
import sys

# Imported on first use, because most programs do not need them.
NOT_IMPORTED = {
    "asyncio",
    "difflib",
    "fsspec",
    "html",
    "importlib.metadata",
    "pandas",
    "pyarrow.dataset",
    "pyarrow.flight",
    "pyarrow.orc",
    "pyarrow.parquet",
    "pyspark",
    "splitlib.cli",
    "splitlib.demo",
    "splitlib.reading",
    "splitlib.spark",
    "splitlib.testing",
    "splitlib_files",
    "splitlib_hive",
    "splitlib_iceberg",
    "tomllib",
    "urllib.request",
}


def python(code):
    # needed if the package is not installed
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.check_output([sys.executable, "-c", code], text=True, env=env)


def test_what_is_not_imported():
    show = "import json, sys; before = set(sys.modules); import {}; "
    show += "print(json.dumps(sorted(set(sys.modules) - before)))"
    by_arrow = set(json.loads(python(show.format("pyarrow.compute, numpy"))))
    by_splitlib = set(json.loads(python(show.format("splitlib"))))
    assert by_splitlib & NOT_IMPORTED == set()
    # modules of Python itself, at present about 30
    others = {name for name in by_splitlib - by_arrow if name.partition(".")[0] != "splitlib"}
    assert len(others) < 60, sorted(others)
