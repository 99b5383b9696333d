"""``allowed_locations`` applies to all files in the metadata of Delta and Iceberg tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from tests.interop.sources.conftest import FORMATS

ROWS = "SELECT id, CAST(id % 3 AS INT) AS k FROM RANGE(30)"
OUTSIDE = 2
"""Key of the partition with files outside of the allowed directory."""
QUERY = "SELECT id FROM {d} WHERE id IN (SELECT k FROM {t})"
COMMANDS = [
    "INSERT INTO {d} SELECT id, k FROM {t}",
    "MERGE INTO {t} t USING {d} d ON d.id = t.id + 30 WHEN MATCHED THEN UPDATE SET id = -1",
    "UPDATE {t} SET id = -2 WHERE id = 25",
    "DELETE FROM {t} WHERE id = -1",
    "INSERT INTO {t} REPLACE WHERE k = 2 SELECT id, 2 FROM {d}",
]
# These statements are tested only for their errors, to save time.
ONLY_REFUSED = [
    "SELECT id FROM {t} WHERE k <> 1",
    "MERGE INTO {d} d USING {t} t ON d.id = t.id WHEN MATCHED THEN DELETE",
]
_number = count()


@pytest.fixture(scope="module")
def root(spark: SparkSession) -> Path:
    """Return the directory that holds the tables of both formats."""
    return Path(urlsplit(str(spark.conf.get("spark.sql.warehouse.dir"))).path).parent


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(autouse=True)
def restricted(spark: SparkSession, root: Path) -> Iterator[None]:
    with changed(spark, {"spark.splitlib.allowedLocations": str(root)}):
        yield


def new(format_: str) -> str:
    return f"{FORMATS[format_]}.al{next(_number)}"


def inside(spark: SparkSession, format_: str, properties: str = "") -> str:
    """Create a table partitioned by ``k``, with all files in its directory."""
    name = new(format_)
    spark.sql(f"CREATE TABLE {name} USING {format_} PARTITIONED BY (k) {properties} AS {ROWS}")
    return name


def dimension(spark: SparkSession, format_: str) -> str:
    name = new(format_)
    spark.sql(f"CREATE TABLE {name} USING {format_} AS SELECT id, 7 AS k FROM RANGE(50)")
    return name


def partly_outside(spark: SparkSession, format_: str, elsewhere: Path) -> str:
    """Create a table in the allowed directory, with the files of one partition elsewhere."""
    name, other = new(format_), elsewhere / f"t{next(_number)}"
    if format_ == "delta":
        rows = f"PARTITIONED BY (k) AS {ROWS} WHERE id % 3 = {OUTSIDE}"
        spark.sql(f"CREATE TABLE delta.`{other}` USING delta {rows}")
        spark.sql(f"CREATE TABLE {name} SHALLOW CLONE delta.`{other}`")
    else:
        rows = f"TBLPROPERTIES ('write.data.path' = '{other}') AS {ROWS} WHERE id % 3 = {OUTSIDE}"
        spark.sql(f"CREATE TABLE {name} USING iceberg PARTITIONED BY (k) {rows}")
        spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('write.data.path')")
    spark.sql(f"INSERT INTO {name} {ROWS} WHERE id % 3 <> {OUTSIDE}")
    return name


def refused(what: str = "elsewhere"):
    return pytest.raises(splitlib.LocationNotAllowed, match=what)


def test_files_inside(spark: SparkSession, format_: str) -> None:
    """All statements succeed if the table's directory is allowed, and fail if it is not."""
    table, dim = inside(spark, format_), dimension(spark, format_)
    assert splitlib.sql(spark, QUERY.format(t=table, d=dim)).count() == 3
    for text in COMMANDS:
        splitlib.sql(spark, text.format(t=table, d=dim))
    assert (spark.table(table).count(), spark.table(dim).count()) == (86, 80)
    with (
        changed(spark, {"spark.splitlib.allowedLocations": "/nowhere"}),
        refused("outside of allowed_locations"),
    ):
        splitlib.sql(spark, f"SELECT * FROM {table}")


def test_files_elsewhere(spark: SparkSession, format_: str, elsewhere: Path) -> None:
    """A statement fails if it reads files elsewhere, but not if it only writes to the table."""
    table, dim = partly_outside(spark, format_, elsewhere), dimension(spark, format_)
    for text in [QUERY, *COMMANDS, *ONLY_REFUSED]:
        with refused():
            splitlib.sql(spark, text.format(t=table, d=dim))
    with refused():
        splitlib.freeze(spark.table(table))
    with refused():
        splitlib.condition(spark.table(table), on="k")
    assert (spark.table(table).count(), spark.table(dim).count()) == (30, 50)
    assert splitlib.sql(spark, f"SELECT id FROM {table} WHERE k = 1").count() == 10
    splitlib.sql(spark, f"INSERT OVERWRITE {table} SELECT id, 1 FROM {dim} WHERE id < 2")
    assert spark.table(table).count() == 2


def test_deleted_rows_elsewhere(spark: SparkSession, format_: str, elsewhere: Path) -> None:
    """A statement fails if only the deletion vectors or delete files are elsewhere."""
    other = elsewhere / f"t{next(_number)}"
    if format_ == "delta":
        table = inside(spark, format_, "TBLPROPERTIES (delta.enableDeletionVectors = true)")
    else:
        table = inside(spark, format_, "TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    splitlib.sql(spark, f"DELETE FROM {table} WHERE id = 4")
    assert splitlib.sql(spark, f"SELECT * FROM {table}").count() == 29
    if format_ == "delta":
        log = Path(urlsplit(location_of(spark, table)).path) / "_delta_log"
        last = sorted(log.glob("*.json"))[-1]
        actions = [json.loads(line) for line in last.read_text().splitlines()]
        (added,) = [action["add"] for action in actions if "add" in action]
        (removed,) = [action["remove"] for action in actions if "remove" in action]
        vector = added["deletionVector"]
        (vectors,) = log.parent.glob("deletion_vector_*.bin")
        other.mkdir()
        moved = vectors.rename(other / vectors.name)
        absolute = {**vector, "storageType": "p", "pathOrInlineDv": moved.as_uri()}
        commit(log, {"remove": {**removed, "deletionVector": vector}})
        commit(log, {"add": {**added, "deletionVector": absolute}})
    else:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.data.path' = '{other}')")
        spark.sql(f"DELETE FROM {table} WHERE id = 7")
    assert spark.table(table).count() == (29 if format_ == "delta" else 28)
    with refused():
        splitlib.sql(spark, f"SELECT * FROM {table}")


def location_of(spark: SparkSession, table: str) -> str:
    (row,) = spark.sql(f"DESCRIBE DETAIL {table}").collect()
    return str(row.location)


def commit(log: Path, action: dict[str, Any]) -> None:
    """Write one more version to the log of a Delta table."""
    version = int(sorted(log.glob("*.json"))[-1].stem) + 1
    (log / f"{version:020}.json").write_text(json.dumps(action))


def test_control_characters_in_names(spark: SparkSession, root: Path) -> None:
    """Paths with control characters are refused, because some clients drop these characters.

    Such a client would open another file than the one that was checked.
    """
    table = inside(spark, "delta")
    log = Path(urlsplit(location_of(spark, table)).path) / "_delta_log"
    path = f"file://{root}/.%0A./no/x.parquet"
    added = {"path": path, "partitionValues": {"k": "9"}, "size": 1, "modificationTime": 0}
    commit(log, {"add": {**added, "dataChange": True}})
    with refused("control character"):
        splitlib.sql(spark, f"SELECT * FROM {table}")
