"""The dataset of a table: which files Arrow reads itself, what is skipped, what is refused."""

from __future__ import annotations

import gc
import io
import math
import os
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import splitlib
from splitlib import DynamicFilteringData, SplitConfig
from splitlib.errors import (
    FileChanged,
    InvalidFilter,
    LocationNotAllowed,
    MissingFile,
    UnsupportedTable,
)
from splitlib.rows.converted import ConvertedFiles

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
ROWS = pa.table({"a": range(20), "s": [f"s{i}" for i in range(20)]}, SCHEMA)
values = DynamicFilteringData.from_values
between = DynamicFilteringData.from_range


def opened(root, **options):
    return splitlib.load_table(str(root), "files", **{"schema": SCHEMA, **options})


def written(root, rows, name="f.parquet", **options):
    root.mkdir(parents=True, exist_ok=True)
    if name.endswith("orc"):
        orc.write_table(rows, root / name)
    else:
        pq.write_table(rows, root / name, **options)
    return root / name


def formats(dataset):
    return [fragment.format.default_extname for fragment in dataset.get_fragments()]


@pytest.mark.parametrize(
    ("rows", "reader"),
    [
        (ROWS, "parquet"),
        (ROWS.select(["s", "a"]), "parquet"),
        (ROWS.select(["a"]), "parquet"),
        (ROWS.append_column("other", ROWS["a"]), "parquet"),
        (ROWS.set_column(0, "a", ROWS["a"].cast(pa.int8())), "parquet"),
        (ROWS.set_column(1, "s", ROWS["s"].cast(pa.large_string())), "parquet"),
        (ROWS.rename_columns(["A", "s"]), "arrow"),
        (ROWS.append_column("k", ROWS["a"]), "parquet"),
        (ROWS.append_column("k", ROWS["s"]), "parquet"),
        (ROWS.set_column(0, "a", ROWS["a"].cast(pa.uint32())), "arrow"),
        (ROWS.set_column(1, "s", ROWS["s"].dictionary_encode()), "arrow"),
        (ROWS.replace_schema_metadata({"org.apache.spark.version": "2.4.0"}), "arrow"),
    ],
)
def test_who_reads_a_file(tmp_path, rows, reader):
    written(tmp_path / "t" / "k=5", rows)
    dataset = opened(tmp_path / "t").to_arrow_dataset()
    assert formats(dataset) == [reader]
    expected = {"a": list(range(20)), "s": ROWS["s"].to_pylist(), "k": [5] * 20}
    if "s" not in rows.column_names:
        expected["s"] = [None] * 20
    assert dataset.to_table().to_pydict() == expected
    assert isinstance(dataset, ds.FileSystemDataset)
    assert dataset.count_rows() == 20
    assert dataset.to_table(columns=["k"], filter=ds.field("a") < 3).to_pydict() == {"k": [5] * 3}


def test_orc(tmp_path):
    written(tmp_path / "t" / "k=5", ROWS, "f.orc")
    table = opened(tmp_path / "t", format="orc")
    found = table.to_arrow_dataset(values({"a": [3], "k": [5]})).to_table()
    assert found.to_pydict() == {"a": [3], "s": ["s3"], "k": [5]}


@pytest.mark.parametrize("case", ["lower", "upper"])
def test_row_groups_and_files_without_keys_are_not_read(tmp_path, case):
    rows = ROWS if case == "lower" else ROWS.rename_columns(["A", "S"])
    written(tmp_path / "t", rows, "1.parquet", row_group_size=4)
    path = written(tmp_path / "t", rows.slice(0, 4), "2.parquet")
    for file in (path, tmp_path / "t" / "1.parquet"):
        column = pq.read_metadata(file).row_group(0).column(0)
        with open(file, "r+b") as opened_file:  # whoever reads the first row group fails
            opened_file.seek(column.dictionary_page_offset)
            opened_file.write(b"\xff" * 8)
    dataset = opened(tmp_path / "t").to_arrow_dataset(values({"a": [5, 17]}))
    assert len(list(dataset.files)) == 1
    assert dataset.to_table()["a"].to_pylist() == [5, 17]


def test_a_column_named_like_a_partition_key_is_ignored(tmp_path):
    written(tmp_path / "t" / "k=5", ROWS.append_column("k", ROWS["a"]), row_group_size=2)
    dataset = opened(tmp_path / "t").to_arrow_dataset(values({"k": [5]}), values({"a": [3, 15]}))
    assert dataset.to_table().to_pydict() == {"a": [3, 15], "s": ["s3", "s15"], "k": [5, 5]}


def test_splits_are_converted_one_by_one(tmp_path):
    written(tmp_path / "t", ROWS.rename_columns(["A", "S"]), row_group_size=5)
    config = SplitConfig(target_split_bytes=400)
    dataset = opened(tmp_path / "t").to_arrow_dataset(config=config)
    assert len(dataset.files) > 2
    assert sorted(dataset.to_table()["a"].to_pylist()) == list(range(20))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_rows_with_nan_among_equal_values(tmp_path, kind):
    """Bounds leave out NaN. If they are equal, Arrow would take all rows of a group for equal."""
    floats = [math.nan, 1.0, 1.0, -math.nan, -0.0, 0.0]  # -nan has other bits
    rows = pa.table({"a": pa.array(range(6)), "f": pa.array(floats, kind)})
    written(tmp_path / "t", rows, row_group_size=3)
    table = opened(tmp_path / "t", schema=rows.schema)
    for key, expected in ((math.nan, [0, 3]), (-math.nan, [0, 3]), (1.0, [1, 2]), (0.0, [4, 5])):
        dataset = table.to_arrow_dataset(values({"f": pa.array([key], kind)}))
        assert dataset.to_table()["a"].to_pylist() == expected
        assert dataset.count_rows() == len(expected)
        pair = values({"f": pa.array([key, key], kind), "a": expected})
        assert table.to_arrow_dataset(pair).count_rows() == 2
    assert formats(table.to_arrow_dataset()) == ["parquet"]


def test_splits_inside_of_a_row_group(tmp_path):
    written(tmp_path / "t", ROWS.rename_columns(["A", "S"]))
    config = SplitConfig(target_split_bytes=300)
    dataset = opened(tmp_path / "t").to_arrow_dataset(values({"a": [5]}), config=config)
    assert len(dataset.files) > 1  # and the file has one row group
    assert dataset.to_table()["a"].to_pylist() == [5]


def test_chars_are_padded(tmp_path):
    """Spark pads them when it reads them."""
    written(tmp_path / "t" / "k=x", pa.table({"c": ["ab", "ab  ", None]}))
    table = opened(tmp_path / "t", schema="c char(4)", partition_schema="k char(2)")
    rows = table.to_arrow_dataset(values({"c": ["ab"]})).to_table()
    assert rows.to_pylist() == [{"c": "ab  ", "k": "x "}] * 2


def test_partition_values(tmp_path):
    kinds = pa.schema([("f", pa.float64()), ("d", pa.date32()), ("s", pa.string())])
    schema = pa.schema([("a", pa.int64())])
    for name in ("f=-0.0/d=2020-01-02/s=x%20y", "f=NaN/d=__HIVE_DEFAULT_PARTITION__/s=%2F"):
        written(tmp_path / "t" / name, ROWS.slice(0, 1).select(["a"]))
    table = opened(tmp_path / "t", schema=schema, partition_schema=kinds)
    found = table.to_arrow_dataset().to_table().drop(["a"]).to_pylist()
    assert repr(found) == repr(
        [
            {"f": -0.0, "d": date(2020, 1, 2), "s": "x y"},
            {"f": float("nan"), "d": None, "s": "/"},
        ]
    )
    cases: list[tuple[dict[str, list[Any]], list[str]]] = [
        ({"f": [0.0]}, ["x y"]),
        ({"f": [float("nan")]}, ["/"]),
        ({"d": [None], "s": ["/"]}, ["/"]),
        ({"d": [datetime(2020, 1, 2)], "s": ["x y"]}, ["x y"]),
    ]
    for keys, expected in cases:
        assert table.to_arrow_dataset(values(keys)).to_table()["s"].to_pylist() == expected


def test_filters_that_keep_too_many_keys(tmp_path):
    written(tmp_path / "t", ROWS)
    table = opened(tmp_path / "t")
    marker = DynamicFilteringData.exceeded(pa.schema([("a", pa.int64())]))
    assert table.to_arrow_dataset(marker).count_rows() == 20
    collector = splitlib.DynamicFilteringDataCollector(SCHEMA.remove(1), max_values=1)
    collector.add(pa.record_batch({"a": pa.array([3, 7, 5], pa.int64())}))
    assert table.to_arrow_dataset(collector.finish()).count_rows() == 5
    assert table.to_arrow_dataset(values({"a": pa.array([], pa.int64())})).count_rows() == 0


def test_ranges_with_gaps_and_open_ends(tmp_path):
    written(tmp_path / "t", ROWS)
    table = opened(tmp_path / "t")
    low, high = between({"a": (None, 2)}), between({"a": (18, None), "s": ("s19", "t")})
    assert table.to_arrow_dataset(low).to_table()["a"].to_pylist() == [0, 1, 2]
    assert table.to_arrow_dataset(high).to_table()["a"].to_pylist() == [19]
    assert table.to_arrow_dataset(low, high).count_rows() == 0


def test_ranges_of_decimals(tmp_path):
    """The ends of a range may have another precision and scale than the column."""
    found = pa.array([Decimal(i) / 4 for i in range(40)], pa.decimal128(9, 2))
    for part in (0, 1):
        rows = pa.table({"d": found.slice(part * 20, 20)})
        written(tmp_path / "t", rows, f"{part}.parquet")
    table = opened(tmp_path / "t", schema=rows.schema)
    some = between({"d": (Decimal("1.3"), Decimal(2))})
    assert table.to_arrow_dataset(some).to_table()["d"].to_pylist() == [
        Decimal("1.50"), Decimal("1.75"), Decimal("2.00")
    ]  # fmt: skip
    assert len(table.files(some)) == 1
    finer = between({"d": (Decimal("7.125"), None)})  # for files, an end that does not fit is open
    assert len(table.files(finer)) == 2
    with pytest.raises(InvalidFilter, match="is not a value of"):
        table.to_arrow_dataset(finer)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (values({"a": ["1"]}), "Field 'a' is string, which cannot be compared with int64"),
        (values({"b": [1]}), "The table has no column 'b'"),
        (values({"s": ["x"], "a": [1.5]}), "Field 'a' is double"),
        (values({"n.x": [1]}), "'n.x', which is nested"),
        (values({"n": [1]}), "'n', which is nested"),
        (values({"a": [1], "A": [2]}), "Several columns are named 'a', ignoring case"),
        (values({"h": [1.5]}), "halffloat"),
        (between({"i": (2**40, 2**41)}), "an end that is not a value of int32"),
        (between({"d": (Decimal("0.05"), Decimal("0.15"))}), "decimal"),
    ],
)
def test_a_filter_that_cannot_be_compared_exactly_is_refused(tmp_path, keys, message):
    kinds = {"i": pa.int32(), "d": pa.decimal128(5, 1), "n": pa.struct([("x", pa.int32())])}
    kinds["h"] = pa.float16()
    schema = pa.schema([*SCHEMA, *kinds.items()])
    written(tmp_path / "t", schema.empty_table())
    with pytest.raises(InvalidFilter, match=message):
        opened(tmp_path / "t", schema=schema).to_arrow_dataset(keys)


def test_what_cannot_be_read_right_is_refused(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "f.csv").write_text("1,x\n")
    with pytest.raises(UnsupportedTable, match="format csv"):
        opened(tmp_path / "t", format="csv").to_arrow_dataset()
    written(tmp_path / "u" / "k=x", ROWS)
    keys = pa.schema([("k", pa.int32())])
    with pytest.raises(UnsupportedTable, match="Partition value 'x' of 'k' is ambiguous as int32"):
        opened(tmp_path / "u", partition_schema=keys).to_arrow_dataset()
    schema = pa.schema([*SCHEMA, ("A", pa.int64())])
    with pytest.raises(UnsupportedTable, match="several columns named 'a'"):
        opened(tmp_path / "u", schema=schema).to_arrow_dataset()


@pytest.mark.parametrize("names", [["a", "s"], ["A", "S"]])
def test_files_that_changed_since_they_were_listed(tmp_path, names):
    path = written(tmp_path / "t", ROWS.rename_columns(names))
    dataset = opened(tmp_path / "t").to_arrow_dataset()
    written(tmp_path / "t", ROWS.slice(0, 3).rename_columns(names))
    with pytest.raises(FileChanged, match="its size was"):
        dataset.to_table()
    path.unlink()
    with pytest.raises(MissingFile, match=r"f\.parquet"):
        dataset.to_table()


@pytest.mark.parametrize("names", [["a", "s"], ["A", "S"]])
def test_files_that_were_replaced_by_others_of_the_same_size(tmp_path, names):
    """Row groups were chosen by the footer of another file."""
    options = {"row_group_size": 5, "compression": "none", "use_dictionary": False}
    rows = pa.table([[i // 5 for i in range(20)], ["x"] * 20], names=names)
    path = written(tmp_path / "t", rows, **options)
    dataset = opened(tmp_path / "t").to_arrow_dataset(values({"a": [3]}))
    before = path.stat()
    written(tmp_path / "t", rows.take(list(range(19, -1, -1))), **options)
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(0, before.st_mtime_ns + 10**9))
    with pytest.raises(FileChanged, match="its modification time was"):
        dataset.to_table()


def test_locations_are_checked_when_a_file_is_opened(tmp_path):
    path = written(tmp_path / "t", ROWS)
    other = written(tmp_path / "other", ROWS)
    table = opened(tmp_path / "t", config=SplitConfig(allowed_locations=(str(tmp_path / "t"),)))
    dataset = table.to_arrow_dataset()
    path.unlink()
    path.symlink_to(other)
    with pytest.raises(LocationNotAllowed):
        dataset.to_table()


def test_a_table_without_files(tmp_path):
    (tmp_path / "t").mkdir()
    dataset = opened(tmp_path / "t", partition_schema=pa.schema([])).to_arrow_dataset()
    assert dataset.to_table() == SCHEMA.empty_table()


def test_other_storages(tmp_path):
    fs = fsspec.filesystem("memory")
    for part in (1, 2):
        sink = io.BytesIO()
        names = ["a", "s"] if part == 1 else ["A", "S"]
        pq.write_table(ROWS.rename_columns(names), sink, row_group_size=7)
        fs.pipe_file(f"/{tmp_path.name}/k={part}/a b%20c.parquet", sink.getvalue())
    table = opened(f"memory://{tmp_path.name}")
    found = table.to_arrow_dataset(values({"a": [3, 9]})).to_table()
    assert found["a"].to_pylist() == [3, 9, 3, 9]
    assert found["k"].to_pylist() == [1, 1, 2, 2]
    fs.rm(f"/{tmp_path.name}", recursive=True)


# With one thread for input, a converted file that needed such a thread would wait for ever.
ONE_THREAD = """
import sys
import pyarrow as pa
import splitlib

pa.set_io_thread_count(1)
pa.set_cpu_count(1)
for form in ("parquet", "orc"):
    table = splitlib.load_table(f"{sys.argv[1]}/{form}", "files", format=form, schema="a bigint")
    assert table.to_arrow_dataset().to_table().num_rows == 40
    assert table.to_polars().collect().height == 40
    assert table.to_duckdb().aggregate("count(a)").fetchall() == [(40,)]
"""


def test_converted_files_do_not_need_the_threads_that_open_them(tmp_path):
    for form in ("parquet", "orc"):
        for number in (1, 2):
            written(tmp_path / form, ROWS.rename_columns(["A", "S"]), f"{number}.{form}")
    command = [sys.executable, "-c", ONE_THREAD, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(command, env=env, check=True, timeout=120)


def test_datasets_are_freed(tmp_path):
    """A dataset knows each file of the table, so it must not stay in memory when it is dropped."""
    written(tmp_path / "k=1", ROWS)

    def living() -> int:
        gc.collect()
        return sum(type(each) is ConvertedFiles for each in gc.get_objects())

    with opened(tmp_path) as table:
        before = living()
        for _ in range(10):
            assert table.to_arrow_dataset().to_table().num_rows == 20
        # A thread of Arrow may hold the last ones for a moment. A leak would keep all of them.
        assert living() < before + 10


def test_partition_values_are_as_stored(tmp_path):
    """For comparisons, -0.0 equals 0.0, and CHAR values have no trailing spaces. Rows pad them."""
    for name in ("c=ab/f=-0.0", "c=ab   /f=0.0", "c=x/f=NaN"):
        written(tmp_path / "t" / name, ROWS.slice(0, 1))
    table = opened(tmp_path / "t", partition_schema="c char(5), f double")
    keys = values({"c": ["ab"], "f": [0.0]})
    expected = {("ab", "-0.0"), ("ab   ", "0.0")}
    rows = table.to_arrow_dataset(keys).to_table().to_pylist()
    assert {(row["c"], str(row["f"])) for row in rows} == {("ab   ", "-0.0"), ("ab   ", "0.0")}
    enumerator = splitlib.DynamicFileEnumerator(table)
    enumerator.set_dynamic_filtering_data(keys)
    found = [split.partition_values for split in enumerator.enumerate_splits()]
    assert {(one["c"], str(one["f"])) for one in found} == expected
    listed = table.partitions(keys)["values"].to_pylist()
    assert {(one["c"], str(one["f"])) for one in listed} == expected


def test_local_times_and_instants_are_compared_in_the_zone_of_the_table(tmp_path):
    """As in Spark, whose session has the zone. Only in UTC, the comparison is exact."""
    moment = datetime(2024, 1, 1, 5)
    rows = pa.table({"t": pa.array([datetime(2024, 1, 1), moment], pa.timestamp("us"))})
    written(tmp_path / "t", rows)
    table = opened(tmp_path / "t", schema=rows.schema)
    keys = pa.table({"t": pa.array([moment], pa.timestamp("us", "UTC"))})
    data = DynamicFilteringData.from_arrow(keys)
    for here in (table, table.in_time_zone("UTC")):
        assert here.to_arrow_dataset(data).to_table()["t"].to_pylist() == [moment]
    with pytest.raises(InvalidFilter, match="cannot be compared"):
        table.in_time_zone("America/New_York").to_arrow_dataset(data)


def test_a_file_without_rows_or_dictionaries(tmp_path):
    """Its row group has no bytes, so no split contains any of it."""
    for name, rows in (("1.parquet", ROWS.slice(0, 0)), ("2.parquet", ROWS)):
        written(tmp_path / "t", rows, name, use_dictionary=False)
    found = opened(tmp_path / "t").to_arrow_dataset(values({"a": [5]})).to_table()
    assert found["a"].to_pylist() == [5]


def test_bounds_of_decimals_in_an_unknown_order_skip_nothing(tmp_path):
    """Old writers compared decimals as signed bytes, so that 3.00 was more than 5.00."""
    kind = pa.decimal128(25, 2)
    content = pa.BufferOutputStream()
    decimals = [Decimal("-1.00"), Decimal("5.00"), Decimal("3.00")]
    pq.write_table(pa.table({"d": pa.array(decimals, kind)}), content, use_dictionary=False)
    data = content.getvalue().to_pybytes()
    length = int.from_bytes(data[-8:-4], "little")
    # The list of sort orders is the last field: its header, and three bytes for the column.
    footer = data[-8 - length : -8].removesuffix(b"\x19\x1c\x1c\x00\x00\x00") + b"\x00"
    assert footer.count(b"\x00\x01\xf4") == 2
    footer = footer.replace(b"\x00\x01\xf4", b"\x00\x01\x2c")
    end = footer + len(footer).to_bytes(4, "little") + b"PAR1"
    (tmp_path / "f.parquet").write_bytes(data[: -8 - length] + end)
    with splitlib.load_table(str(tmp_path), "files") as table:
        keys = DynamicFilteringData.from_arrow(pa.table({"d": pa.array([decimals[1]], kind)}))
        assert table.to_arrow_dataset(keys).to_table().to_pydict() == {"d": [decimals[1]]}
