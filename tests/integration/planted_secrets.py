"""A program that passes a secret to every input of splitlib and prints everything users can see.

``python -m tests.integration.planted_secrets DIRECTORY`` prints the texts, and writes Spark's event
log to the directory. ``test_secrets.py`` searches both for :data:`SECRET`.
"""

from __future__ import annotations

import json
import logging
import pickle
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import splitlib
from splitlib.cli.app import main as command_line

SECRET = "pl4nted"
IN_NAMES = [
    f"s3://user:{SECRET}@bucket/t",
    f"s3://user:{SECRET}/{SECRET}@bucket/t",
    f"user:{SECRET}@host:9083/db.t",
    f"https://host/t?sig={SECRET}",
    f"https://host/t?password={SECRET}&token={SECRET}",
    f"https://host/t?X-Amz-Signature={SECRET}&X-Amz-Credential={SECRET}",
    f"lake.t?token={SECRET}",
]
GLUE_KEYS = {"key": "a", "secret": SECRET, "token": SECRET}
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("hive", {"uri": f"thrift://me:{SECRET}@localhost:1"}),
    ("hive", {"uri": f"me:{SECRET}@localhost:1"}),
    ("iceberg", {"uri": f"sqlite:////nowhere/x.db?password={SECRET}", "type": "sql"}),
    ("iceberg", {"uri": "http://localhost:1", "type": "rest", "token": SECRET}),
    ("iceberg", {"uri": f"http://me:{SECRET}@localhost:1", "credential": f"a:{SECRET}"}),
    ("iceberg", {"type": f"none?token={SECRET}"}),
    ("glue", {"endpoint_url": f"http://me:{SECRET}@localhost:1", "region": "r", **GLUE_KEYS}),
    ("glue", {"endpoint_url": f"none?token={SECRET}", "region": "r", **GLUE_KEYS}),
    ("glue", {"profile": f"none?token={SECRET}", "secret": SECRET}),
    ("files", {"storage_options": {"secret": SECRET}, "format": f"x?sig={SECRET}"}),
    ("files", {f"password={SECRET}": "x"}),
]


def show_error(call: Callable[[], Any]) -> None:
    """Run a call that fails. Print its error in every form that a user may see, also pickled."""
    try:
        call()
    except splitlib.SplitlibError as error:
        print(str(error), repr(error), vars(error), *traceback.format_exception(error))
        print(pickle.dumps(error))
    else:
        raise AssertionError("no error")


def errors(spark: SparkSession) -> None:
    """Print the errors for tables that do not exist, with the secret in their names and options."""
    quick: dict[str, Any] = {"config": splitlib.SplitConfig(retry_attempts=1)}
    for name in IN_NAMES:
        for connector in ("files", "glue", "hive", "iceberg", None):
            options: dict[str, Any] = {"uri": "thrift://localhost:1"} if connector == "hive" else {}
            if connector == "glue":
                options = {"endpoint_url": "http://localhost:1", "region": "r", **GLUE_KEYS}
            show_error(partial(splitlib.load_table, name, connector, **quick, **options))
        reader = splitlib.read(spark).table(name, "files", storage_options={"secret": SECRET})
        print(reader, [reader], f"{reader!r}")
        show_error(reader.load)
    for kind, given in OPTIONS:
        print(splitlib.read(spark).table("db.t", kind, **given))
        show_error(partial(splitlib.load_table, "db.t", kind, **quick, **given))
    show_error(lambda: splitlib.SplitConfig.resolve({"target_split_bytes": f"x?sig={SECRET}"}))


def scans(spark: SparkSession, root: Path) -> None:
    """Print reports and plans of tables that can be read and whose options contain the secret."""
    table = splitlib.load_table(
        str(root), "files", partition_schema="day int", storage_options={"secret": SECRET}
    )
    enumerator = splitlib.DynamicFileEnumerator(table)
    keys = splitlib.DynamicFilteringData.from_values({"day": [1]})
    enumerator.set_dynamic_filtering_data(keys, producer="a producer")
    splits = list(enumerator.enumerate_splits())
    assert splits
    print(table, enumerator, splits, enumerator.metrics, keys, [pickle.dumps(s) for s in splits])
    show_report(enumerator.explain())
    with splitlib.DynamicFileSplitEnumerator(enumerator) as coordinator:
        coordinator.register_reader("r")
        print(coordinator, coordinator.handle_split_request("r"), coordinator.snapshot_state())
    options = {"storage_options": {"secret": SECRET}, "partition_schema": "day int"}
    read = splitlib.read(spark).table(str(root), "files", **options).filtered_by(keys, on="day")
    show_rows(read.load())
    show_rows(splitlib.read(spark).table(f"lake.{root}").where("day = 1").load())
    show_rows(splitlib.read(spark).table("ice.ns.t").where("day = 1").load())
    rows = splitlib.sql(spark, "SELECT * FROM ice.ns.t WHERE day = 1")
    assert [row.day for row in rows.collect()] == [1]
    rows.explain(True)
    show_report(splitlib.explain(rows))
    spark.dataSource.register(splitlib.SplitlibDataSource)
    source = spark.read.format("splitlib").option("connector", "files")
    source = source.option("storage.secret", SECRET).option("partition_schema", "day int")
    rows = source.load(str(root))
    assert rows.count() == 2
    rows.explain(True)
    stream = spark.readStream.format("splitlib").option("connector", "files")
    stream = stream.option("storage.secret", SECRET).option("partition_schema", "day int")
    writer = stream.load(str(root)).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(root.parent / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(True)
    print(query.lastProgress)
    spark.sparkContext.setCheckpointDir(str(root.parent / "checkpoint"))
    assert read.load().checkpoint().count() == 1


def iceberg_table(directory: Path) -> None:
    """Create the table ``ns.t`` in a SQLite catalog. The program opens this catalog as ``ice``."""
    catalog = load_catalog(
        "ice", type="sql", uri=f"sqlite:///{directory}/ice.db", warehouse=directory.as_uri()
    )
    catalog.create_namespace("ns")
    rows = pa.table({"day": [1]})
    catalog.create_table("ns.t", schema=rows.schema).append(rows)
    catalog.close()


def show_rows(rows: Any) -> None:
    assert [row.day for row in rows.collect()] == [1]
    rows.explain(True)
    show_report(splitlib.explain(rows))


def show_report(report: Any) -> None:
    print(report, repr(report), json.dumps(report.to_dict(), default=str))
    print(report._repr_html_())


def commands(root: Path) -> None:
    for name in (str(root), *IN_NAMES):
        for command in ("plan", "explain", "partitions"):
            given = ["-c", "files", "-o", f"storage_options.secret={SECRET}"]
            print(command_line([command, name, *given, "--json"]))
            print(command_line([command, name, *given]))


def main(directory: Path) -> None:
    logging.getLogger("splitlib").setLevel(logging.DEBUG)
    logging.getLogger("splitlib").addHandler(logging.StreamHandler(sys.stdout))
    root = directory / "a"
    for day in (1, 2):
        (root / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"v": [day]}), root / f"day={day}" / "x.parquet")
    iceberg_table(directory)
    events = directory / "events"
    events.mkdir()
    builder = SparkSession.builder.master("local[1]")
    for key, value in {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    errors(spark)
    scans(spark, root)
    commands(root)
    spark.stop()
    print("all of it ran")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
