"""Splits are read into record batches without lost or repeated rows, with the declared types."""

from __future__ import annotations

import dataclasses
import os
import pickle
from datetime import date, datetime

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

import splitlib
from splitlib import DynamicFilteringData, FileSplit, ReadFormat
from splitlib.enumeration.splitting import byte_ranges
from splitlib.errors import FileChanged, MissingFile, SourceError, UnsupportedTable
from splitlib.model import FIELD_ID, LOGICAL_TYPE, DeleteFile
from splitlib.reading.columns import ByFieldId, fit
from splitlib.reading.formats import RowGroupFilter
from splitlib.reading.reader import read_split
from splitlib.storage import Storage

PARQUET = ReadFormat.of("parquet")


def splits(path, size, target=None, *, form=PARQUET, values=None, **more):
    return [
        FileSplit(str(start), str(path), start, length, size, 0, values or {}, form, **more)
        for start, length in byte_ranges(size, target or size)
    ]


def of_file(path, target=None, **more):
    return splits(path, path.stat().st_size, target, **more)


def rows(found, schema, storage=None, **more):
    batches = [b for split in found for b in read_split(split, schema, storage, **more)]
    return pa.Table.from_batches(batches, schema)


def write(path, table, **options):
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(table), path, **options)
    return path


@settings(max_examples=40)
@given(
    count=st.integers(0, 40),
    group=st.integers(1, 12),
    target=st.integers(100, 4000),
    kind=st.data(),
)
def test_every_row_is_in_exactly_one_split(tmp_path_factory, count, group, target, kind):
    table = pa.table(
        {"a": pa.array(range(count), pa.int64()), "s": pa.array(["x" * 9] * count, pa.string())}
    )
    path = tmp_path_factory.mktemp("t") / "f"
    form = kind.draw(st.sampled_from(["parquet", "orc"]))
    if form == "parquet":
        pq.write_table(table, path, row_group_size=group, use_dictionary=kind.draw(st.booleans()))
    else:
        orc.write_table(table, path, stripe_size=1, batch_size=group)
    found = of_file(path, target, form=ReadFormat.of(form))
    read = rows(found, table.schema, batch_rows=kind.draw(st.sampled_from([1, 7, 1000])))
    assert read.to_pydict() == table.to_pydict()


@pytest.mark.parametrize("columns", [["k"], ["k", "a"], ["a", "missing", "K"], ["missing"]])
def test_columns_of_file_partition_and_none(tmp_path, columns):
    path = write(tmp_path / "f", {"a": range(25), "k": ["wrong"] * 25}, row_group_size=10)
    kinds = {"a": pa.int64(), "k": pa.date32(), "K": pa.date32(), "missing": pa.list_(pa.string())}
    schema = pa.schema([(name, kinds[name]) for name in columns])
    found = of_file(path, values={"k": date(2020, 1, 2)})
    read = rows(found, schema, batch_rows=4)
    assert read.num_rows == 25
    expected = {"a": list(range(25)), "k": [date(2020, 1, 2)] * 25, "missing": [None] * 25}
    assert read.to_pydict() == {n: expected[n.lower()] for n in columns}


def test_partition_text_that_is_no_certain_value_is_refused(tmp_path):
    write(tmp_path / "d=2020-1-5" / "f.parquet", {"a": [1]})
    schema = pa.schema([("a", pa.int64()), ("d", pa.date32())])
    with splitlib.load_table(str(tmp_path), "files", schema=schema) as table:
        (found,) = splitlib.DynamicFileEnumerator(table).enumerate_splits()
    assert found.partition_values == {"d": "2020-1-5"}
    assert rows([found], pa.schema([("a", pa.int64())])).num_rows == 1
    with pytest.raises(UnsupportedTable, match="'2020-1-5' of 'd' is ambiguous as date32"):
        rows([found], pa.schema([("d", pa.date32())]))


def test_names_with_dots(tmp_path):
    table = pa.table({"a.b": [1, 2], "a": [{"b": 3}, {"b": 4}]})
    path = write(tmp_path / "f", table)
    assert rows(of_file(path), table.schema) == table
    keys = DynamicFilteringData.from_values({"a.b": [1]})
    row_groups = RowGroupFilter(table.schema, [keys])
    assert rows(of_file(path), table.schema, row_groups=row_groups) == table


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (DynamicFilteringData.from_values({"A": [11, 35]}), [1, 3]),
        (DynamicFilteringData.from_values({"a": pa.array([2**40, 11])}), [1]),
        (DynamicFilteringData.from_range({"a": (19, 20)}), [1, 2]),
        (DynamicFilteringData.from_values({"a": pa.array([None], pa.int32())}), [4]),
        (DynamicFilteringData.from_values({"a": [5, 25], "s": ["s2", "s0"]}), []),
        (DynamicFilteringData.from_values({"k": [1]}), [0, 1, 2, 3, 4]),
        (DynamicFilteringData.from_values({"a": ["1"]}), [0, 1, 2, 3, 4]),
        (DynamicFilteringData.from_values({"f": [float("nan")]}), [0, 1, 2, 3, 4]),
        (DynamicFilteringData.from_values({"f": [0.5]}), [0]),
        (DynamicFilteringData.from_values({"d": [date(1970, 1, 12)]}), [1]),
        (DynamicFilteringData.from_values({"c": ["s1"]}), [0, 1, 2, 3, 4]),
    ],
)
def test_row_groups_that_hold_no_key_are_not_read(tmp_path, keys, expected):
    a = pa.array([*range(40), *[None] * 10], pa.int32())
    table = pa.table(
        {
            "a": a,
            "s": [f"s{i // 10}" for i in range(50)],
            "c": [f"s{i // 10}   " for i in range(50)],
            "f": [i / 2 for i in range(50)],
            "d": a.cast(pa.date32()),
        }
    )
    path = write(tmp_path / "f", table, row_group_size=10)
    declared = table.schema.set(
        2, pa.field("c", pa.string(), metadata={b"splitlib.logical_type": b"char(5)"})
    )
    row_groups = pickle.loads(pickle.dumps(RowGroupFilter(declared, [keys])))
    read = rows(of_file(path), table.schema, row_groups=row_groups)
    assert read == pa.concat_tables([table[:0], *(table[g * 10 : g * 10 + 10] for g in expected)])


ANCIENT = {"d": [date(1500, 1, 1)], "t": [datetime(1850, 1, 1)]}


@pytest.mark.parametrize("column", ANCIENT)
def test_dates_of_an_unknown_calendar_are_refused(tmp_path, column):
    table = pa.table({column: ANCIENT[column]})
    wanted = pa.schema([(column, pa.date32() if column == "d" else pa.timestamp("us", "UTC"))])
    for version, extra, refused in (
        ("2.4.8", {}, True),
        ("3.5.0", {}, False),
        ("4.0.0", {"org.apache.spark.legacyDateTime": ""}, True),
        ("4.0.0", {"org.apache.spark.legacyINT96": ""}, True),
    ):
        marked = table.replace_schema_metadata({"org.apache.spark.version": version, **extra})
        path = write(tmp_path / "f", marked)
        if refused:
            with pytest.raises(UnsupportedTable, match="Julian"):
                rows(of_file(path), wanted)
        else:
            assert rows(of_file(path), wanted).num_rows == 1


def test_nanoseconds(tmp_path):
    whole = pa.table({"t": pa.array([1_000_000_001_000], pa.timestamp("ns"))})
    path = write(tmp_path / "f", whole)
    read = rows(of_file(path), pa.schema([("t", pa.timestamp("us"))]))
    assert read["t"].cast(pa.int64()).to_pylist() == [1_000_000_001]
    write(path, {"t": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(UnsupportedTable, match="do not fit"):
        rows(of_file(path), pa.schema([("t", pa.timestamp("us"))]))
    write(path, whole, use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedTable, match="INT96"):
        rows(of_file(path), pa.schema([("t", pa.timestamp("us"))]))
    instants = rows(of_file(path), pa.schema([("t", pa.timestamp("us", "UTC"))]))
    assert instants["t"].cast(pa.int64()).to_pylist() == [1_000_000_001]


NESTED = pa.list_(
    pa.struct({"a": pa.int64(), "m": pa.map_(pa.string(), pa.list_(pa.float64())), "z": pa.bool_()})
)
STORED = pa.large_list(
    pa.struct(
        {"M": pa.map_(pa.large_string(), pa.list_(pa.float32())), "A": pa.int16(), "x": pa.int8()}
    )
)
inner = st.one_of(
    st.none(), st.lists(st.one_of(st.none(), st.sampled_from([0.5, 2.0])), max_size=3)
)
maps = st.one_of(st.none(), st.dictionaries(st.sampled_from("pqr"), inner, max_size=3))
structs = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"A": st.one_of(st.none(), st.integers(-9, 9)), "M": maps, "x": st.none()}
    ),
)
lists = st.lists(st.one_of(st.none(), st.lists(structs, max_size=3)), max_size=8)


@given(values=lists, cut=st.integers(0, 8))
def test_nested_columns_of_an_older_file(values, cut):
    def as_table(struct):
        if struct is None:
            return None
        pairs = None if struct["M"] is None else list(struct["M"].items())
        return {"a": struct["A"], "m": pairs, "z": None}

    stored = [
        None
        if row is None
        else [s and {**s, "M": None if s["M"] is None else list(s["M"].items())} for s in row]
        for row in values
    ]
    array = pa.array(stored, STORED)[cut:]  # the offsets of a slice do not begin at 0
    fitted = fit(array, pa.field("a", NESTED))
    fitted.validate(full=True)
    expected = [None if row is None else [as_table(s) for s in row] for row in values[cut:]]
    assert fitted.to_pylist() == expected


def test_struct_field_in_another_case():
    inner = pa.field("a", pa.int32(), metadata={FIELD_ID: b"1"})
    column = pa.field("s", pa.struct([inner, pa.field("b", pa.int32(), metadata={FIELD_ID: b"2"})]))
    array = pa.array([{"A": 1, "b": 2}], pa.struct({"A": pa.int32(), "b": pa.int32()}))
    fitted = fit(array, column, find=ByFieldId({1: "a", 2: "b"}))
    assert fitted.to_pylist() == [{"a": 1, "b": 2}]


def test_a_file_on_another_filesystem():
    fs = fsspec.filesystem("memory")
    with fs.open("/lake/f.parquet", "wb") as file:
        pq.write_table(pa.table({"a": range(100)}), file, row_group_size=10)
    size = fs.size("/lake/f.parquet")
    found = splits("memory://lake/f.parquet", size, size // 3)
    read = rows(found, pa.schema([("a", pa.int64())]), Storage({}))
    assert sorted(read["a"].to_pylist()) == list(range(100))
    fs.rm("/lake", recursive=True)


def test_a_file_that_has_changed_gone_or_broken(tmp_path):
    schema = pa.schema([("a", pa.int64())])
    path = write(tmp_path / "f", {"a": [1]})
    found = of_file(path)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(FileChanged, match="has changed"):
        rows(found, schema)
    with pytest.raises(SourceError, match=str(path)):
        rows(of_file(path), schema)
    path.unlink()
    with pytest.raises(MissingFile, match=str(path)):
        rows(found, schema)


def test_what_arrow_does_not_read_exactly_is_refused(tmp_path):
    schema = pa.schema([("a", pa.int64())])
    path = write(tmp_path / "f", {"a": [1]})
    for form in (
        ReadFormat.of("csv"),
        ReadFormat.of("parquet", columns="id"),
        ReadFormat.of("parquet", {"int96RebaseMode": "LEGACY"}),
    ):
        with pytest.raises(UnsupportedTable, match=r"splitlib\.read"):
            rows(of_file(path, form=form), schema)
    assert rows(of_file(path, form=ReadFormat.of("parquet", {"mergeSchema": "true"})), schema)
    deletes = (DeleteFile("position", "d", 1, "parquet"),)
    with pytest.raises(UnsupportedTable, match="delete files"):
        rows(of_file(path, deletes=deletes), schema)


def test_a_file_written_again_in_the_same_size(tmp_path):
    path = write(tmp_path / "f", {"a": [1]})
    listed = Storage().level(str(tmp_path)).files[0].modified
    (split,) = of_file(path)
    split = dataclasses.replace(split, modified=listed)
    schema = pa.schema([("a", pa.int64())])
    assert rows([split], schema, verify=True).to_pydict() == {"a": [1]}
    write(path, {"a": [2]})
    os.utime(path, ns=(0, (listed + 5123) * 10**6))
    assert path.stat().st_size == split.file_size
    assert rows([split], schema).to_pydict() == {"a": [2]}
    with pytest.raises(FileChanged, match=r"modification time was .* and is") as caught:
        rows([split], schema, verify=True)
    assert str(path) in str(caught.value)
    # A modification time of 0 is unknown, and is not compared.
    unknown = dataclasses.replace(split, modified=0)
    assert rows([unknown], schema, verify=True).to_pydict() == {"a": [2]}
    path.unlink()
    with pytest.raises(MissingFile, match=str(path)):
        rows([split], schema, verify=True)


def test_times_in_seconds_and_in_milliseconds(tmp_path):
    """Modification times are equal if they differ only by rounding to seconds or milliseconds."""
    path = write(tmp_path / "f", {"a": [1]})
    schema = pa.schema([("a", pa.int64())])
    (split,) = of_file(path)
    for listed, found, same in [
        (5000, 5678, True),
        (5678, 5000, True),
        (5678, 5679, True),
        (5678, 5680, False),
        (5000, 6000, False),
    ]:
        os.utime(path, ns=(0, found * 10**6))
        changed = dataclasses.replace(split, modified=listed)
        if same:
            assert rows([changed], schema, verify=True).num_rows == 1
        else:
            with pytest.raises(FileChanged):
                rows([changed], schema, verify=True)


def test_chars_are_padded(tmp_path):
    char = {LOGICAL_TYPE: b"char(4)"}
    schema = pa.schema([pa.field(name, pa.string(), metadata=char) for name in ("c", "key")])
    path = write(tmp_path / "f", {"c": ["ab", "é  ", None, "abcde"]})
    (split,) = of_file(path, values={"key": "k"})
    assert rows([split], schema).to_pydict() == {
        "c": ["ab  ", "é   ", None, "abcde"],
        "key": ["k   "] * 4,
    }


@pytest.mark.parametrize(
    ("form", "option"),
    [
        ("orc", "orc.force.positional.evolution"),
        ("orc", "orc.proleptic.gregorian.default"),
        ("parquet", "DatetimeRebaseMode"),
    ],
)
def test_options_that_change_rows_are_refused(tmp_path, form, option):
    path = write(tmp_path / "f", {"a": [1]})
    splits = of_file(path, form=ReadFormat.of(form, {option: "LEGACY"}))
    with pytest.raises(UnsupportedTable, match=f"{option}=LEGACY is not supported"):
        rows(splits, pa.schema({"a": pa.int64()}))
