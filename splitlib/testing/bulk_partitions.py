"""Add partitions directly to a metastore's Derby database.

Adding a partition over Thrift takes 10 to 20 ms, which is too slow for 100,000 partitions. This
module imports a CSV file into a staging table instead. Then one ``INSERT … SELECT`` for each table
of the metastore's schema creates the same rows as ``ObjectStore.addPartition``. Each partition gets
a copy of the Hive table's storage descriptor.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splitlib.hive.partition_values import NULL_PARTITION, partition_name

_MODELS = "org.apache.hadoop.hive.metastore.model."

# {serde}, {descriptor} and {partition} are the first new ids; {table…} are the Hive table's ids.
# The order of the statements matters because of foreign keys.
_INSERTS = """
INSERT INTO SERDES (SERDE_ID, NAME, SLIB)
  SELECT {serde} + N, NAME, SLIB FROM STAGED_PARTITIONS, SERDES WHERE SERDE_ID = {table.serde_id};
INSERT INTO SERDE_PARAMS (SERDE_ID, PARAM_KEY, PARAM_VALUE)
  SELECT {serde} + N, PARAM_KEY, PARAM_VALUE
  FROM STAGED_PARTITIONS, SERDE_PARAMS WHERE SERDE_ID = {table.serde_id};
INSERT INTO SDS (SD_ID, SERDE_ID, LOCATION, CD_ID, INPUT_FORMAT, OUTPUT_FORMAT, NUM_BUCKETS,
                 IS_COMPRESSED, IS_STOREDASSUBDIRECTORIES)
  SELECT {descriptor} + N, {serde} + N, NEW_LOCATION, CD_ID, INPUT_FORMAT, OUTPUT_FORMAT,
         NUM_BUCKETS, IS_COMPRESSED, IS_STOREDASSUBDIRECTORIES
  FROM STAGED_PARTITIONS, SDS WHERE SD_ID = {table.descriptor_id};
INSERT INTO SD_PARAMS (SD_ID, PARAM_KEY, PARAM_VALUE)
  SELECT {descriptor} + N, PARAM_KEY, PARAM_VALUE
  FROM STAGED_PARTITIONS, SD_PARAMS WHERE SD_ID = {table.descriptor_id};
INSERT INTO BUCKETING_COLS (SD_ID, BUCKET_COL_NAME, INTEGER_IDX)
  SELECT {descriptor} + N, BUCKET_COL_NAME, INTEGER_IDX
  FROM STAGED_PARTITIONS, BUCKETING_COLS WHERE SD_ID = {table.descriptor_id};
INSERT INTO SORT_COLS (SD_ID, COLUMN_NAME, "ORDER", INTEGER_IDX)
  SELECT {descriptor} + N, COLUMN_NAME, "ORDER", INTEGER_IDX
  FROM STAGED_PARTITIONS, SORT_COLS WHERE SD_ID = {table.descriptor_id};
INSERT INTO PARTITIONS (PART_ID, SD_ID, TBL_ID, PART_NAME, CREATE_TIME, LAST_ACCESS_TIME)
  SELECT {partition} + N, {descriptor} + N, {table.table_id}, NEW_NAME, {now}, 0
  FROM STAGED_PARTITIONS;
INSERT INTO PARTITION_PARAMS (PART_ID, PARAM_KEY, PARAM_VALUE)
  SELECT {partition} + N, 'transient_lastDdlTime', '{now}' FROM STAGED_PARTITIONS
"""
_INSERT_KEY = """
INSERT INTO PARTITION_KEY_VALS (PART_ID, PART_KEY_VAL, INTEGER_IDX)
  SELECT {partition} + N, VALUE{i}, {i} FROM STAGED_PARTITIONS
"""


def bulk_add_partitions(
    connection: Any,
    csv_path: Path,
    database: str,
    table: str,
    values: Sequence[tuple[str | None, ...]],
    locations: Sequence[str] | None = None,
) -> None:
    """Add partitions to an existing table; see `HiveMetastore.bulk_add_partitions`.

    Args:
        connection: JDBC connection to the metastore's database. It stays open.
        csv_path: Path of a temporary CSV file, which is written and removed.
        database: Name of the database.
        table: Name of the table.
        values: One tuple of partition values per partition.
        locations: One location per partition; by default subdirectories of the table's location
            with Hive's partition names.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    target = _find_table(connection, database, table)
    _write_csv(csv_path, target, values, locations)
    try:
        _stage(connection, csv_path, target)
        connection.setAutoCommit(False)
        _insert(connection, target, len(values))
        connection.commit()
    except (Py4JError, PySparkException) as error:
        connection.rollback()
        raise ValueError(
            f"no partition was added to {database}.{table}, perhaps because one of them exists "
            f"already: {_message(error)}"
        ) from None
    finally:
        connection.setAutoCommit(True)
        _drop_staging(connection)
        csv_path.unlink(missing_ok=True)


def _message(error: BaseException) -> str:
    """Return the database's error message.

    For every Java error, PySpark requests details from its session's JVM, even if the error comes
    from another JVM. Then this request raises a new error, and the original error is one of its
    causes.
    """
    from py4j.protocol import Py4JJavaError

    found: BaseException | None = error
    while found is not None and not isinstance(found, Py4JJavaError):
        found = found.__cause__ or found.__context__
    return str(error) if found is None else str(found.java_exception.getMessage())


@dataclass(frozen=True)
class _Table:
    """Ids, location and partition keys of a table in the metastore."""

    table_id: int
    descriptor_id: int
    serde_id: int
    location: str
    keys: tuple[str, ...]


def _find_table(connection: Any, database: str, table: str) -> _Table:
    found = _query(
        connection,
        "SELECT TBL_ID, S.SD_ID, SERDE_ID, LOCATION FROM TBLS T"
        " JOIN SDS S ON T.SD_ID = S.SD_ID JOIN DBS D ON T.DB_ID = D.DB_ID"
        " WHERE D.NAME = ? AND T.TBL_NAME = ?",
        database.lower(),
        table.lower(),
    )
    if not found:
        raise LookupError(f"there is no table {database}.{table} in the metastore")
    [(table_id, descriptor_id, serde_id, location)] = found
    keys = _query(
        connection,
        "SELECT PKEY_NAME FROM PARTITION_KEYS WHERE TBL_ID = ? ORDER BY INTEGER_IDX",
        table_id,
    )
    if not keys:
        raise ValueError(f"the table {database}.{table} is not partitioned")
    return _Table(
        int(table_id), int(descriptor_id), int(serde_id), location, tuple(key for (key,) in keys)
    )


def _write_csv(
    path: Path,
    target: _Table,
    values: Sequence[tuple[str | None, ...]],
    locations: Sequence[str] | None,
) -> None:
    def rows() -> Iterator[tuple[object, ...]]:
        names = (partition_name(target.keys, row) for row in values)
        for n, (name, row) in enumerate(zip(names, values, strict=True)):
            location = f"{target.location}/{name}" if locations is None else locations[n]
            yield n, name, location, *(value or NULL_PARTITION for value in row)

    if locations is not None and len(locations) != len(values):
        raise ValueError(
            f"locations must have one item for each partition: {len(values)} partitions, but "
            f"{len(locations)} locations"
        )
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows())


def _stage(connection: Any, csv_path: Path, table: _Table) -> None:
    _drop_staging(connection)  # An import that was killed may have left the staging table.
    values = ", ".join(f"VALUE{i} VARCHAR(255)" for i in range(len(table.keys)))
    _execute(
        connection,
        "CREATE TABLE STAGED_PARTITIONS"
        f" (N BIGINT, NEW_NAME VARCHAR(767), NEW_LOCATION VARCHAR(4000), {values})",
    )
    _execute(
        connection,
        "CALL SYSCS_UTIL.SYSCS_IMPORT_TABLE(NULL, 'STAGED_PARTITIONS', ?, ',', '\"', 'UTF-8', 1)",
        str(csv_path),
    )


def _drop_staging(connection: Any) -> None:
    if _query(connection, "SELECT 1 FROM SYS.SYSTABLES WHERE TABLENAME = 'STAGED_PARTITIONS'"):
        _execute(connection, "DROP TABLE STAGED_PARTITIONS")


def _insert(connection: Any, table: _Table, count: int) -> None:
    serde = _reserve_ids(connection, "MSerDeInfo", count)
    descriptor = _reserve_ids(connection, "MStorageDescriptor", count)
    partition = _reserve_ids(connection, "MPartition", count)
    inserts = _INSERTS.format(
        serde=serde, descriptor=descriptor, partition=partition, table=table, now=int(time.time())
    )
    for insert in inserts.split(";"):
        _execute(connection, insert)
    for i in range(len(table.keys)):
        _execute(connection, _INSERT_KEY.format(partition=partition, i=i))


def _reserve_ids(connection: Any, model: str, count: int) -> int:
    """Reserve `count` ids for objects of Hive's class `model`, and return the first id.

    The sequence's row is locked until the commit, so the running metastore cannot use the same ids.
    """
    sequence = _MODELS + model
    taken = _execute(
        connection,
        f"UPDATE SEQUENCE_TABLE SET NEXT_VAL = NEXT_VAL + {count} WHERE SEQUENCE_NAME = ?",
        sequence,
    )
    if not taken:  # Hive has not created an object of this class yet.
        _execute(connection, f"INSERT INTO SEQUENCE_TABLE VALUES (?, {count + 1})", sequence)
    [(next_id,)] = _query(
        connection, "SELECT NEXT_VAL FROM SEQUENCE_TABLE WHERE SEQUENCE_NAME = ?", sequence
    )
    return int(next_id) - count


def _execute(connection: Any, sql: str, *parameters: str) -> int:
    """Run one statement and return the number of rows it changed."""
    statement = _prepare(connection, sql, parameters)
    try:
        return int(statement.executeUpdate())
    finally:
        statement.close()


def _query(connection: Any, sql: str, *parameters: str) -> list[tuple[str, ...]]:
    statement = _prepare(connection, sql, parameters)
    try:
        result = statement.executeQuery()
        columns = range(1, result.getMetaData().getColumnCount() + 1)
        rows = []
        while result.next():
            rows.append(tuple(result.getString(column) for column in columns))
        return rows
    finally:
        statement.close()


def _prepare(connection: Any, sql: str, parameters: Sequence[str]) -> Any:
    statement = connection.prepareCall(sql)
    for position, value in enumerate(parameters, start=1):
        statement.setString(position, value)
    return statement
