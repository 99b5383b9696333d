"""Columns merged from all files, and data files chosen by a pattern."""

from __future__ import annotations

import fnmatch
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

import splitlib
from splitlib import ConfigError, DynamicFilteringData, UnsupportedTable
from splitlib_files import FilesConnector
from splitlib_files.walk import pattern_of

ROW_METADATA = "org.apache.spark.sql.parquet.row.metadata"
NESTED = (
    pa.list_(pa.int32()),
    pa.map_(pa.string(), pa.int32()),
    pa.struct([("x", pa.int32())]),
)


def write(root, name, columns, form="parquet"):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    (pq if form == "parquet" else orc).write_table(table, path)


def columns_of(root, **options):
    with FilesConnector.open(str(root), options) as connector:
        return {field.name: field.type for field in connector.describe().schema}


@pytest.mark.parametrize(
    "options",
    [
        {"merge_schema": True},
        {"merge_schema": "true", "read_options": {"mergeSchema": "false"}},
        {"read_options": {"MERGESCHEMA": True}},
        {"read_options": {"mergeschema": " True "}},
        {"session_settings": {"spark.sql.parquet.mergeSchema": "true"}},
    ],
    ids=str,
)
def test_columns_of_all_files(tmp_path, options):
    write(tmp_path, "k=1/s/f", {"a": [1], "K": ["not the key"], "s": [{"x": 1}]})
    write(tmp_path, "k=2/f", {"A": [2], "b": ["b"], "s": [{"Y": "y"}]})
    write(tmp_path, "ignored.parquet", {"c": [1]})
    struct = pa.struct([("x", pa.int64()), ("Y", pa.string())])
    expected = {"a": pa.int64(), "s": struct, "b": pa.string(), "k": pa.int32()}
    assert columns_of(tmp_path, **options) == expected
    with splitlib.load_table(str(tmp_path), "files", **options) as table:
        found = table.to_arrow_dataset().to_table().drop(["s"]).to_pylist()
    assert found == [{"a": 1, "b": None, "k": 1}, {"a": 2, "b": "b", "k": 2}]


def test_not_merged(tmp_path):
    write(tmp_path, "1", {"a": [1]})
    write(tmp_path, "2", {"b": [1]})
    assert columns_of(tmp_path) == {"a": pa.int64()}
    setting = {"session_settings": {"spark.sql.parquet.mergeSchema": "true"}}
    assert columns_of(tmp_path, merge_schema=False, **setting) == {"a": pa.int64()}
    assert columns_of(tmp_path, schema="c int", merge_schema=True) == {"c": pa.int32()}
    assert columns_of(tmp_path, merge_schema=True) == {"a": pa.int64(), "b": pa.int64()}


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_types_that_can_be_merged(tmp_path, form):
    narrow, wide = pa.decimal128(3, 1), pa.decimal128(9, 1)
    for name, (one, other) in {"1": (narrow, wide), "2": (wide, narrow)}.items():
        values = {"d": one, "l": pa.list_(one), "m": pa.map_(one, one), "n": pa.map_(one, other)}
        write(tmp_path, name, {key: pa.nulls(1, kind) for key, kind in values.items()}, form)
    assert columns_of(tmp_path, merge_schema=True, format=form) == {
        "d": wide,
        "l": pa.list_(pa.field("item", wide)),
        "m": pa.map_(wide, wide),
        "n": pa.map_(wide, wide),
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 1), pa.decimal128(5, 2)),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        *[(kind, pa.int32()) for kind in NESTED],
        *[(pa.int32(), kind) for kind in NESTED],
        (pa.map_(pa.string(), pa.int32()), pa.list_(pa.int32())),
        (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.string())])),
    ],
    ids=str,
)
def test_types_that_cannot_be_merged(tmp_path, one, other):
    write(tmp_path, "1", {"a": pa.nulls(1, one)})
    write(tmp_path, "2", {"a": pa.nulls(1, other)})
    with pytest.raises(UnsupportedTable, match=r"/2: Column '[ax]' is .* in one file and"):
        columns_of(tmp_path, merge_schema=True)


COMMENT = {"comment": "x"}
COLLATED = {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}
OTHER_COLLATED = {"__COLLATIONS": {"c": "icu.UNICODE"}}


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize(
    ("one", "other", "is_merged"),
    [
        (("string", {}), ("string", COMMENT), True),
        (("string", {"comment": "y"}), ("string", COMMENT), True),
        (("string", COMMENT), None, True),
        (("varchar(3)", {}), ("string", {}), False),
        (("string", COLLATED), ("string", COMMENT), False),
        (("string", COLLATED), ("string", OTHER_COLLATED), False),
        (("string", COLLATED), ("string", {**COLLATED, **COMMENT}), True),
        (("interval day", {}), None, False),
        (("interval day", {}), ("interval month", {}), False),
        (("interval day", {}), ("interval day", COMMENT), True),
    ],
    ids=str,
)
def test_types_that_spark_wrote_into_the_files(tmp_path, one, other, is_merged, more):
    """Spark's types decide, also if Arrow's are equal. Other properties may differ."""
    for name, stored in {"1": one, "2": other}.items():
        table = pa.table({"c": ["x"], **({"d": ["x"]} if more and name == "2" else {})})
        if stored is not None:
            kind, properties = stored
            field = {"name": "c", "type": kind, "nullable": True, "metadata": properties}
            fields = [field, *({**field, "name": "d"} for _ in table.column_names[1:])]
            text = json.dumps({"type": "struct", "fields": fields})
            table = table.replace_schema_metadata({ROW_METADATA: text})
        write(tmp_path, name, table)
    if is_merged:
        assert columns_of(tmp_path, merge_schema=True)["c"] == pa.string()
        return
    with pytest.raises(UnsupportedTable, match="/2: Column 'c' is string in one file and string"):
        columns_of(tmp_path, merge_schema=True)


def test_what_cannot_be_merged(tmp_path):
    (tmp_path / "t").mkdir()
    with pytest.raises(splitlib.TableNotFound, match="no data file"):
        columns_of(tmp_path / "t", merge_schema=True)
    write(tmp_path / "t", "1", pa.table([[1], [2]], names=["a", "A"]))
    with pytest.raises(UnsupportedTable, match="several columns named 'A'"):
        columns_of(tmp_path / "t", merge_schema=True)
    with pytest.raises(ConfigError, match="merge_schema must be true or false"):
        columns_of(tmp_path / "t", merge_schema="yes")
    with pytest.raises(ConfigError, match="Files of csv do not declare columns"):
        columns_of(tmp_path / "t", merge_schema=True, format="csv")


def test_csv_files_beside_parquet_files(tmp_path):
    for part in (1, 2):
        write(tmp_path, f"k={part}/f.parquet", {"v": [part]})
        (tmp_path / f"k={part}/f.csv").write_text("5\n")
    write(tmp_path, "k=3/sub/g.parquet", {"v": [3]})
    (tmp_path / "k=x").mkdir()
    (tmp_path / "k=x/f.txt").write_text("no data")
    keys = DynamicFilteringData.from_values({"k": [2, 3]})
    with splitlib.load_table(str(tmp_path), "files", path_glob="*.parquet") as table:
        assert [path.rpartition("/")[2] for path in table.files(keys)["path"].to_pylist()] == [
            "f.parquet",
            "g.parquet",
        ]
        assert table.to_arrow_dataset().to_table().to_pydict() == {"v": [1, 2, 3], "k": [1, 2, 3]}
    glob, columns = "*.{csv,tsv}", "v int"
    with splitlib.load_table(
        str(tmp_path), "files", path_glob=glob, format="csv", schema=columns
    ) as table:
        assert table.files()["values"].to_pylist() == [{"k": 1}, {"k": 2}]
    assert splitlib.paths(table) == [f"{tmp_path}/k={part}/f.csv" for part in (1, 2)]


def test_a_pattern_does_not_hide_that_the_table_is_of_iceberg(tmp_path):
    write(tmp_path, "f.parquet", {"v": [1]})
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/v1.metadata.json").write_text("{}")
    with pytest.raises(UnsupportedTable, match="Iceberg"):
        columns_of(tmp_path, path_glob="*.parquet")


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*.csv", ["a.csv", ".csv"], ["a.csv.gz", "acsv"]),
        ("part-?", ["part-1"], ["part-", "part-12"]),
        ("[a-c]*", ["a", "bx"], ["d", ""]),
        ("[^a-c]", ["d", "^"], ["a", ""]),
        ("[!a]x", ["bx"], ["ax"]),
        ("{a,b{1,2}}.x", ["a.x", "b1.x", "b2.x"], ["b.x", "a,b1.x"]),
        (r"a\*b", ["a*b"], ["axb", "a*xb", "a**b"]),
        ("a\\", ["a\\"], ["a"]),
        ("a+(b)|c", ["a+(b)|c"], ["ab", "c"]),
        ("a,b", ["a,b"], ["a"]),
        ("a}{b,c}}", ["a}b}", "a}c}"], ["ab"]),
    ],
)
def test_patterns(glob, matching, others):
    for name in matching:
        assert pattern_of(glob).fullmatch(name), name
    for name in others:
        assert not pattern_of(glob).fullmatch(name), name


@given(st.text("ab*?.+\n"), st.text("ab.+\n"))
def test_stars_and_question_marks_are_those_of_fnmatch(glob, name):
    assert bool(pattern_of(glob).fullmatch(name)) == fnmatch.fnmatchcase(name, glob)


@pytest.mark.parametrize("glob", ["{a", "[a", "", "a/b", 5, "[b-a]"])
def test_patterns_that_are_refused(tmp_path, glob):
    with pytest.raises(ConfigError, match="path_glob"):
        columns_of(tmp_path, path_glob=glob)


def test_the_pattern_of_spark_is_named(tmp_path):
    with pytest.raises(ConfigError, match="pass path_glob="):
        columns_of(tmp_path, read_options={"pathGlobFilter": "*"})
