"""Rows that Spark reads from Iceberg tables with delete files."""

from __future__ import annotations

import datetime
import decimal
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.errors import UnsupportedTable
from splitlib.model import DeleteFile
from splitlib.spark.formats.field_id_scan import as_file_batch
from tests.integration.iceberg.lake import (
    append_files,
    data_file,
    delete_equal,
    delete_positions,
    delete_vector,
    ints,
    plain,
    rows_of,
    table_of,
    with_id,
)
from tests.support.abilities import skip_unless_it_widens

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

ID = NestedField(1, "id", IntegerType())
TWO = Schema(ID, NestedField(2, "v", IntegerType()))


def numbered(table, first, count, **options):
    """Append a file with ``count`` consecutive ids and ``v = 10 * id``. Return its path."""
    ids = list(range(first, first + count))
    rows = table_of(ints("id", 1, ids), ints("v", 2, [10 * i for i in ids]))
    file = data_file(table, rows, **options)
    append_files(table, file)
    return file.file_path


def ids_of(df):
    return sorted(row.id for row in df.collect())


def joins_of(df):
    """Return the join types in Spark's optimized plan."""
    plan = df._jdf.queryExecution().optimizedPlan().toString()
    return [line.split("Join ")[1].split(",")[0] for line in plan.splitlines() if "Join " in line]


def test_by_position(lake, read) -> None:
    table = lake.create(TWO)
    one, two = numbered(table, 0, 10, row_group_size=2), numbered(table, 10, 5)
    delete_positions(table, {one: [0, 3, 9], two: [4]})
    delete_positions(table, {one: [3, 4]})
    numbered(table, 20, 2)
    df = read(table).load()
    assert rows_of(df) == plain(table)
    # If Spark skips row groups, positions still count from the start of the file.
    assert ids_of(df.where("v >= 70")) == [7, 8, 10, 11, 12, 13, 20, 21]
    assert ids_of(df.where("v = 90")) == []
    assert df.count() == 12


NAMES = ["plain", "a b", "a%20b", "é☃", "a+b=c", "50%"]


@pytest.mark.parametrize("spelled", ["file://{}", "file:{}", "{}", "//{}"])
def test_a_path_is_the_same_file_however_it_is_spelled(lake, read, spelled) -> None:
    """A delete file names its data file by path, which may be written in another form."""
    table = lake.create(TWO)
    paths = [numbered(table, 2 * i, 2, directory=name) for i, name in enumerate(NAMES)]
    plainly = [path.removeprefix("file://").replace("/data/", "/data//") for path in paths]
    delete_positions(table, {spelled.format(path): [1] for path in plainly})
    assert ids_of(read(table).load()) == [2 * i for i in range(len(NAMES))]


def test_files_of_deletes_are_verified_like_those_of_rows(spark, lake, read) -> None:
    table = lake.create(TWO)
    one = numbered(table, 0, 10)
    delete_positions(table, {one: [0, 3]})
    with changed(spark, {"spark.splitlib.verifyFiles": "true"}):
        df = read(table).load()
        assert len(ids_of(df)) == 8
        (delete,) = table.inspect.delete_files()["file_path"].to_pylist()
        pq.write_table(pa.table({"file_path": [one] * 500, "pos": range(500)}), delete[7:])
        with pytest.raises(Exception, match="has changed since it was listed: its size was"):
            df.count()


def test_by_vector(lake, read) -> None:
    table = lake.create(TWO)
    one, two = numbered(table, 0, 10), numbered(table, 10, 3)
    delete_positions(table, {one: [0], two: [0]})
    # A deletion vector replaces the position deletes of its data file.
    delete_vector(table, one, [0, 2, 8])
    assert ids_of(read(table).load()) == [1, 3, 4, 5, 6, 7, 9, 11, 12]


def test_by_value(lake, read) -> None:
    table = lake.create(TWO)
    numbered(table, 0, 6)
    delete_equal(table, table_of(ints("id", 1, [1, 2, 99])), [1])
    delete_equal(table, table_of(ints("id", 1, [3, 4]), ints("v", 2, [30, 0])), [1, 2])
    assert ids_of(read(table).load()) == [0, 4, 5]
    # Equality deletes apply only to data files older than the delete file.
    numbered(table, 1, 1)
    again = data_file(table, table_of(ints("id", 1, [0]), ints("v", 2, [-1])))
    delete_equal(table, table_of(ints("id", 1, [0])), [1], append=[again])
    df = read(table).load()
    assert rows_of(df) == [(0, -1), (1, 10), (4, 40), (5, 50)]
    assert ids_of(df.select("id").where("v > 0")) == [1, 4, 5]


NAN = math.nan


@pytest.mark.parametrize(
    ("kind", "arrow", "values", "deleted"),
    [
        (IntegerType(), pa.int32(), [1, 2, None], [None, 2]),
        (LongType(), pa.int64(), [2**40, -1], [-1]),
        (StringType(), pa.string(), ["a", "A", "", "é", None], ["", "é", "a "]),
        (BinaryType(), pa.binary(), [b"", b"\0", None], [b"\0"]),
        (BooleanType(), pa.bool_(), [True, False, None], [False]),
        (
            DateType(),
            pa.date32(),
            [datetime.date(1969, 12, 31), None],
            [datetime.date(1969, 12, 31)],
        ),
        (
            DecimalType(20, 3),
            pa.decimal128(20, 3),
            [decimal.Decimal("1.500"), decimal.Decimal("-1.500")],
            [decimal.Decimal("-1.500")],
        ),
        (
            TimestampType(),
            pa.timestamp("us"),
            [datetime.datetime(2024, 3, 10, 2, 30), datetime.datetime(2024, 3, 10, 3, 30)],
            [datetime.datetime(2024, 3, 10, 2, 30)],
        ),
        (
            TimestamptzType(),
            pa.timestamp("us", "UTC"),
            [datetime.datetime(2024, 11, 3, h, 30, tzinfo=datetime.UTC) for h in (5, 6)],
            [datetime.datetime(2024, 11, 3, 6, 30, tzinfo=datetime.UTC)],
        ),
        (DoubleType(), pa.float64(), [1.5, NAN, math.inf, None], [NAN, math.inf]),
    ],
    ids=str,
)
def test_values_of_any_type(lake, read, kind, arrow, values, deleted) -> None:
    table = lake.create(Schema(ID, NestedField(2, "v", kind, required=False)))
    column = with_id("v", arrow, 2)
    ids = list(range(len(values)))
    rows = table_of(ints("id", 1, ids), (column, pa.array(values, arrow)))
    append_files(table, data_file(table, rows))
    delete_equal(table, table_of((column, pa.array(deleted, arrow))), [2])
    gone = [i for i, value in enumerate(values) if any(_same(value, other) for other in deleted)]
    assert gone
    assert ids_of(read(table).load()) == [i for i in ids if i not in gone]


def _same(one, other):
    nan = all(isinstance(value, float) and math.isnan(value) for value in (one, other))
    return nan or one == other


def test_columns_compared_that_changed_since(lake, read, spark) -> None:
    """A delete file still applies after its columns were renamed, widened or dropped.

    New columns of the table have the old names.
    """
    skip_unless_it_widens(spark)
    table = lake.create(
        Schema(ID, NestedField(2, "v", IntegerType()), NestedField(3, "w", IntegerType()))
    )
    rows = table_of(
        ints("id", 1, [1, 2, 3, 4]), ints("v", 2, [1, 2, 3, 4]), ints("w", 3, [5, 6, 7, None])
    )
    append_files(table, data_file(table, rows))
    delete_equal(table, table_of(ints("v", 2, [2])), [2])
    delete_equal(table, table_of(ints("w", 3, [7, None])), [3])
    with table.update_schema() as update:
        update.rename_column("v", "was_v")
        update.delete_column("w")
    with table.update_schema() as update:
        update.update_column("was_v", LongType())
        update.add_column("v", IntegerType())
        update.add_column("w", IntegerType())
    df = read(table).load()
    assert rows_of(df) == [(1, 1, None, None)]
    assert df.columns == ["id", "was_v", "v", "w"]


def test_fields_of_structs_compared(lake, read) -> None:
    struct = StructType(NestedField(3, "a", IntegerType(), required=False))
    table = lake.create(Schema(ID, NestedField(2, "s", struct, required=False)))
    kind = pa.struct([with_id("a", pa.int32(), 3)])
    column = with_id("s", kind, 2)
    values = [{"a": 1}, {"a": None}, None, {"a": 2}]
    rows = table_of(ints("id", 1, [1, 2, 3, 4]), (column, pa.array(values, kind)))
    append_files(table, data_file(table, rows))
    delete_equal(table, table_of((column, pa.array([{"a": 2}], kind))), [3])
    assert ids_of(read(table).load()) == [1, 2, 3]


def test_only_the_partition_of_a_delete_or_all_of_them(lake, read) -> None:
    """A delete file applies to its own partition, or to all if it has an unpartitioned spec.

    It can also compare a column that exists only as a partition value.
    """
    table = lake.create(TWO)
    numbered(table, 0, 4)
    with table.update_spec() as update:
        update.add_field("v", IdentityTransform(), "v")
    for value in (1, 2):
        rows = table_of(ints("id", 1, [0, 1, 2]))
        append_files(table, data_file(table, rows, [value]))
    delete_equal(table, table_of(ints("id", 1, [0])), [1], [1])
    delete_equal(table, table_of(ints("id", 1, [1])), [1], spec_id=0)
    delete_equal(table, table_of(ints("id", 1, [2]), ints("v", 2, [2])), [1, 2], [2])
    assert rows_of(read(table).load()) == [(0, 0), (0, 2), (2, 1), (2, 20), (3, 30)]


def test_files_without_deletes_do_not_pay(lake, read, how) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "v"))
    table = lake.create(TWO, spec)
    paths = []
    for value in (1, 2):
        file = data_file(table, table_of(ints("id", 1, [0, 1])), [value])
        append_files(table, file)
        paths.append(file.file_path)
    delete_positions(table, {paths[0]: [0]}, [1])
    delete_equal(table, table_of(ints("id", 1, [9])), [1], [1])
    if how == "auto":
        assert joins_of(read(table).load()).count("LeftAnti") == 2
        assert joins_of(read(table).where("v = 2").load()) == []
    keys = splitlib.DynamicFilteringData.from_values({"v": [2]})
    clean = read(table).filtered_by(keys).load()
    assert rows_of(clean) == [(0, 2), (1, 2)]
    assert "LeftAnti" not in joins_of(clean)
    assert rows_of(read(table).load()) == [(0, 2), (1, 1), (1, 2)]


def test_columns_compared_are_not_shown(lake, read) -> None:
    table = lake.create(TWO)
    path = numbered(table, 0, 4)
    delete_equal(table, table_of(ints("v", 2, [10])), [2])
    delete_positions(table, {path: [3]})
    with table.update_schema() as update:
        update.delete_column("v")
    df = read(table).load()
    assert df.columns == ["id"]
    assert ids_of(df) == [0, 2]


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_delete_files_that_are_not_read_are_refused(form) -> None:
    with pytest.raises(UnsupportedTable, match=form):
        as_file_batch([DeleteFile("position", "/a", 1, form)])


def test_a_position_delete_file_without_its_columns_is_an_error(lake, read) -> None:
    """Without this error, rows that the file deletes would still be returned."""
    table = lake.create(TWO)
    path = numbered(table, 0, 2)
    delete_positions(table, {path: [0]}, names=("path", "row"))
    with pytest.raises(Exception, match="lacks file_path or pos"):
        read(table).load().collect()
