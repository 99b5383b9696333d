"""``import splitlib`` is cheap, because every script and every Python worker of Spark runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

# splitlib must import these modules only when they are used. Most programs do not need them.
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
    "splitlib_delta",
    "splitlib_files",
    "splitlib_glue",
    "splitlib_hive",
    "splitlib_iceberg",
    "tomllib",
    "urllib.request",
}


def python(code):
    # The new process may need this path, because splitlib may not be installed.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.check_output([sys.executable, "-c", code], text=True, env=env)


def test_what_is_not_imported():
    show = "import json, sys; before = set(sys.modules); import {}; "
    show += "print(json.dumps(sorted(set(sys.modules) - before)))"
    by_arrow = set(json.loads(python(show.format("pyarrow.compute, numpy"))))
    by_splitlib = set(json.loads(python(show.format("splitlib"))))
    assert by_splitlib & NOT_IMPORTED == set()
    # The other modules, at present about 30, belong to Python itself.
    others = {name for name in by_splitlib - by_arrow if name.partition(".")[0] != "splitlib"}
    assert len(others) < 60, sorted(others)
