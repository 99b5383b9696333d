"""Run incremental dbt models with and without the macro of docs/guides/commands.md.

The two models must have the same rows, and the MERGE with the macro must read fewer files.

    python -m tests.interop.dbt delta|iceberg JARS
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

from tests.support.sql_metrics import counted, last_execution

DOCS = Path(__file__).parents[3] / "docs" / "guides" / "commands.md"
EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
METRICS = {"delta": "number of files read", "iceberg": "number of result data files"}
MODEL = """{{{{ config(
    materialized="incremental", incremental_strategy="merge", file_format="{format_}",
    unique_key=["id", "{column}"], partition_by=["{column}"], meta={meta}
) }}}}
select * from arrived
"""
# The type of the partition column, and its value for a number. The texts have both quotes, a
# backslash and Jinja's braces.
COLUMNS = {
    "day": "date_add(date'2024-02-20', cast(n as int))",
    "amount": "cast(n / 4 as decimal(9, 2))",
    "label": r"""concat('it''s \\ "', lpad(n, 2, '0'), '" {{ x }}')""",
}
# Rows that arrive before each run: all, three partitions and a null key, four partitions, a new
# partition, none.
ARRIVALS = [
    "range(40)",
    "range(4, 7) union all select null",
    "range(8, 12)",
    "range(40, 41)",
    "range(0)",
]


def session(format_: str, jars: Path, root: Path) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, sorted(jars.glob("*.jar")))),
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:dbt;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={root}",
        "spark.sql.extensions": EXTENSIONS[format_],
    }
    if format_ == "delta":
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.sql.catalog.spark_catalog"] = catalog
    else:
        settings |= {
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(root / "iceberg"),
            "spark.sql.defaultCatalog": "ice",
        }
    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def write_project(format_: str, root: Path) -> None:
    """Write a dbt project with two models per type of the key: with the macro and without it."""
    (macro,) = re.findall(
        r"```jinja\n(\{# macros/prune_merge.sql.*?)```", DOCS.read_text("utf-8"), re.DOTALL
    )
    files = {
        "dbt_project.yml": "name: sales\nversion: '1.0'\nprofile: lake\n",
        "profiles.yml": "lake: {target: here, outputs: {here: {type: spark, method: session, "
        "schema: lake, host: none, threads: 1}}}\n",
        # More than three keys become a range.
        "macros/prune_merge.sql": macro.replace("most=1000", "most=3"),
    }
    for column in COLUMNS:
        for name, meta in (("pruned", {"prune_by": [column]}), ("plain", {})):
            text = MODEL.format(format_=format_, column=column, meta=meta)
            files[f"models/{column}_{name}.sql"] = text.replace("arrived", f"arrived_{column}")
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def main(format_: str, jars: str) -> None:
    """Run the models once for each arrival of rows, and compare them."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        spark = session(format_, Path(jars), root)
        spark.sql("create schema lake")
        write_project(format_, root)
        for run, rows in enumerate(ARRIVALS):
            before = last_execution(spark)
            for column, value in COLUMNS.items():
                spark.sql(
                    f"create or replace temp view arrived_{column} as select n as id, {value} as "
                    f"{column}, {run} as v from (select cast(id as int) as n from {rows})"
                )
            folders = [f"--project-dir={root}", f"--profiles-dir={root}"]
            result = dbtRunner().invoke(["run", "--quiet", *folders])
            assert result.success, result
            for column in COLUMNS:
                models = {name: f"lake.{column}_{name}" for name in ("plain", "pruned")}
                read = {
                    name: counted(spark, model, METRICS[format_], before)
                    for name, model in models.items()
                }
                plain, pruned = (Counter(spark.table(model).collect()) for model in models.values())
                assert plain == pruned, (column, rows)
                print(f"{format_}, {column}, {rows}: {sum(pruned.values())} rows, files {read}")
                assert read["pruned"] <= 8, (column, rows, read)
                # Without matching rows, Spark or Delta may read no target files by itself.
                if run in (1, 2):
                    assert read["plain"] >= 40, (column, rows, read)
        spark.stop()


main(*sys.argv[1:])
