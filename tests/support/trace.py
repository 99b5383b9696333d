"""Count the files that one pruned read enters: ``python -m tests.support.trace``.

A table of 30 partitions is read twice in a new session: by ``splitlib.read`` and by a join through
``splitlib.sql``. A move is a call from one file of the project into another.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import splitlib
from splitlib.testing import HiveMetastore
from tests.spark_session import small_session

_ROOT = str(Path(splitlib.__file__).parents[1])
_SOURCES = (f"{_ROOT}/splitlib/", f"{_ROOT}/connectors/")


@dataclass
class Trace:
    """Files of the project that some code entered, and calls between them, in all threads."""

    files: set[str] = field(default_factory=set)
    """Files of the project that were entered, relative to its root."""
    moves: int = 0
    """Number of calls from one of these files into another one."""

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call. Python calls this method for each event, see :func:`sys.setprofile`."""
        entered = frame.f_code.co_filename
        # do not count the code of modules, which runs only at the first import
        if (
            event != "call"
            or not entered.startswith(_SOURCES)
            or frame.f_code.co_name == "<module>"
        ):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(_SOURCES):
            caller = caller.f_back
        self.files.add(entered.removeprefix(f"{_ROOT}/"))
        self.moves += caller is not None and caller.f_code.co_filename != entered


@contextmanager
def traced() -> Iterator[Trace]:
    """Trace the calls of the ``with`` block and of threads that it starts."""
    trace = Trace()
    threading.setprofile(trace.note)
    sys.setprofile(trace.note)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def trace_queries(spark: SparkSession, name: str) -> dict[str, Trace]:
    """Read a new table of 30 partitions by ``read`` and by ``sql``, and return both traces.

    Args:
        spark: The session.
        name: Name of the table to make. It is dropped afterwards.

    Raises:
        AssertionError: A query was not pruned.
    """
    spark.range(300).selectExpr("id AS x", "id % 30 AS k").write.partitionBy("k").saveAsTable(name)
    days = spark.range(3).selectExpr("id AS k", "id AS d")
    days.createOrReplaceTempView(f"days_of_{name}")
    queries: dict[str, Callable[[], DataFrame]] = {
        "read": lambda: splitlib.read(spark).table(name).filtered_by(days, on="k").load(),
        "sql": lambda: splitlib.sql(
            spark, f"SELECT x FROM {name} JOIN days_of_{name} USING (k) WHERE d < 5"
        ),
    }
    traces = {}
    try:
        for way, query in queries.items():
            query()  # a first run, so that imports and cached lookups do not count
            with traced() as traces[way]:
                planned = query()
            assert planned.count() == 30
            assert "of 30" in str(splitlib.explain(planned)), splitlib.explain(planned)
    finally:
        spark.catalog.dropTempView(f"days_of_{name}")
        spark.sql(f"DROP TABLE {name}")
    return traces


def main(*arguments: Any) -> None:
    """Print the numbers of files and calls. With ``--files``, print also the files' names."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        HiveMetastore() as metastore,
        small_session(metastore, Path(scratch)) as spark,
    ):
        traces = trace_queries(spark, "traced")
    for way, trace in traces.items():
        print(f"{way}: {len(trace.files)} files, {trace.moves} moves between files")
        if "--files" in arguments:
            print(*(f"  {file}" for file in sorted(trace.files)), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
