"""Rows of Delta tables: partition values of the log, and files that other writers wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import DynamicFilteringData
from splitlib.errors import UnsupportedTable
from tests.support.delta_log import add, commit, field, inline_vector, metadata, protocol

MODES = ["plain", "key first", "vectors", "deleted rows", "name", "id"]
values = DynamicFilteringData.from_values


def made(root, mode: str, *files: pa.Table, key: str | None = None, **columns: Any) -> None:
    """Commit ``files`` to a new table with a partition column ``p`` if ``key`` is given.

    Args:
        root: Directory of the table.
        mode: How the table's columns are found.
        files: The files' rows. In the mode ``deleted rows``, the first row of each is deleted.
        key: The partition value in the log, and its type: ``int:5``. The value may be empty.
        columns: Types of the other columns.
    """
    kind, _, value = (key or "").partition(":")
    kinds = {**columns, "p": kind} if key else columns
    ids = {name: i for i, name in enumerate(kinds, start=1)}
    fields = [_mapped(name, kinds[name], i, mode) for name, i in ids.items()]
    mapping = {"delta.columnMapping.mode": mode} if mode in ("name", "id") else {}
    if mode == "key first":
        fields = fields[::-1]
    features = [
        *(["deletionVectors"] if mode in ("vectors", "deleted rows") else []),
        *(["columnMapping"] if mapping else []),
    ]
    entries = [protocol(*features), metadata(fields, ["p"] if key else [], **mapping)]
    root.mkdir()
    for number, rows in enumerate(files):
        with_ids = [
            f.with_metadata({"PARQUET:field_id": str(ids.get(f.name, 99))}) for f in rows.schema
        ]
        path = root / f"{number}.parquet"
        pq.write_table(rows.cast(pa.schema(with_ids)), path, row_group_size=2)
        more: dict[str, Any] = {"partitionValues": {"p": value or None} if key else {}}
        if mode == "deleted rows":
            more["deletionVector"] = inline_vector([0])
        entries.append(add(path.name, size=path.stat().st_size, **more))
    commit(root, entries)


def _mapped(name: str, kind: Any, number: int, mode: str) -> dict[str, Any]:
    names = ("delta.columnMapping.id", "delta.columnMapping.physicalName")
    is_mapped = mode in ("name", "id")
    return field(name, kind, **dict(zip(names, (number, name), strict=True)) if is_mapped else {})


def rows_of(root, *filters: DynamicFilteringData) -> list[dict[str, Any]]:
    """Return the rows, after a comparison of the readers with each other."""
    with splitlib.load_table(str(root), "delta") as table:
        dataset = table.to_arrow_dataset(*filters)
        found: list[dict[str, Any]] = dataset.to_table().to_pylist()
        assert dataset.count_rows() == len(found)
        for name in table.schema.names:
            column = dataset.to_table(columns=[name])[name].to_pylist()
            assert column == [row[name] for row in found]
        assert table.to_polars(*filters).collect().to_dicts() == found
        names = table.to_duckdb(*filters).columns
        rows = table.to_duckdb(*filters).fetchall()
        assert [dict(zip(names, row, strict=True)) for row in rows] == found
    return found


def formats(root) -> list[str]:
    with splitlib.load_table(str(root), "delta") as table:
        return [f.format.default_extname for f in table.to_arrow_dataset().get_fragments()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "stored",
    [pa.array([7, 7, None, 5], pa.int32()), pa.array(["5", "x", None, "7"]), None],
    ids=["int32", "string", "missing"],
)
def test_partition_values_are_those_of_the_log(tmp_path, mode, stored):
    """Also if files have the partition column, as those of a converted table or of Delta 4.4."""
    rows = pa.table({"id": [1, 2, 3, 4]})
    if stored is not None:
        rows = rows.append_column("p", stored)
    made(tmp_path / "t", mode, rows, key="integer:5", id="long")
    every = [{"id": i, "p": 5} for i in ([2, 3, 4] if mode == "deleted rows" else [1, 2, 3, 4])]
    found = rows_of(tmp_path / "t")
    assert found == every
    assert formats(tmp_path / "t") == ["arrow" if mode == "deleted rows" else "parquet"]
    for keys, expected in (
        ({"p": [5]}, every),
        ({"p": [7]}, []),
        ({"p": [None]}, []),
        ({"p": [5, 7], "id": [2, 3]}, [{"id": 2, "p": 5}]),
    ):
        assert rows_of(tmp_path / "t", values(keys)) == expected
    with splitlib.load_table(str(tmp_path / "t"), "delta") as table:
        dataset = table.to_arrow_dataset()
        for condition in (ds.field("p") == 5, ds.field("p") < 6, ds.field("p").is_valid()):
            assert dataset.count_rows(filter=condition) == len(every)
            assert dataset.to_table(filter=condition).to_pylist() == every
        for condition in (ds.field("p") == 7, ds.field("p").is_null()):
            assert dataset.count_rows(filter=condition) == 0


@pytest.mark.parametrize("mode", MODES)
def test_null_in_the_log(tmp_path, mode):
    """Delta writes the text ``__HIVE_DEFAULT_PARTITION__`` as null."""
    texts = pa.array(["__HIVE_DEFAULT_PARTITION__"] * 3)
    made(tmp_path / "t", mode, pa.table({"id": [1, 2, 3], "p": texts}), key="string:", id="long")
    every = [{"id": i, "p": None} for i in ([2, 3] if mode == "deleted rows" else [1, 2, 3])]
    assert rows_of(tmp_path / "t") == every
    assert rows_of(tmp_path / "t", values({"p": pa.array([None], pa.string())})) == every
    assert rows_of(tmp_path / "t", values({"p": texts})) == []


def test_timestamps_of_older_and_newer_writers(tmp_path):
    """Newer writers write partition values in UTC, older ones in the time zone of the session."""
    texts = ["2020-07-01 00:00:00", "2020-07-01T00:00:00.000000Z", "2020-07-01 00:00:00.5"]
    for number in range(3):
        pq.write_table(pa.table({"id": [number]}), tmp_path / str(number))
    sizes = [(tmp_path / str(number)).stat().st_size for number in range(3)]
    columns = [field("id", "long"), field("p", "timestamp")]
    commit(tmp_path, [protocol(), metadata(columns, ["p"])])
    commit(
        tmp_path,
        [
            add(str(number), size=sizes[number], partitionValues={"p": text})
            for number, text in enumerate(texts)
        ],
    )
    moments = [datetime(2020, 7, 1, tzinfo=UTC), datetime(2020, 7, 1, 4, tzinfo=UTC)]
    half = timedelta(milliseconds=500)
    with splitlib.load_table(str(tmp_path), "delta") as table:
        for zone, local in (("UTC", moments[0]), ("America/New_York", moments[1])):
            here = table.in_time_zone(zone)
            rows = here.to_arrow_dataset().to_table().sort_by("id")["p"].to_pylist()
            assert rows == [local, moments[0], local + half]
            for moment in moments:
                expected = [number for number in (0, 1) if rows[number] == moment]
                keys = values({"p": [moment]})
                assert len(here.files(keys)) == len(expected)
                found = here.to_arrow_dataset(keys).to_table()["id"].to_pylist()
                assert sorted(found) == expected


@pytest.mark.parametrize("mode", ["plain", "key first", "vectors", "deleted rows", "name"])
def test_names_of_columns_in_another_case(tmp_path, mode):
    """Spark finds columns by name without regard to case, in each of these modes."""
    structs = pa.array([{"A": i} for i in range(4)], pa.struct([("A", pa.int32())]))
    rows = pa.table({"ID": [1, 2, 3, 4], "S": structs})
    inner = {"type": "struct", "fields": [_mapped("a", "integer", 9, mode)]}
    made(tmp_path / "t", mode, rows, key="integer:5", id="long", s=inner)
    every = [{"id": i, "s": {"a": i - 1}, "p": 5} for i in (1, 2, 3, 4)]
    assert rows_of(tmp_path / "t") == every[mode == "deleted rows" :]
    for i in (3, 4, 5):
        expected = [row for row in every if row["id"] == i]
        assert rows_of(tmp_path / "t", values({"id": [i]})) == expected


@pytest.mark.parametrize("mode", ["key first", "vectors", "name"])
def test_two_names_in_a_file_that_differ_only_in_case(tmp_path, mode):
    rows = pa.table({"ID": [1, 2], "id": [3, 4]})
    made(tmp_path / "exact", mode, rows, key="integer:5", id="long")
    assert [row["id"] for row in rows_of(tmp_path / "exact")] == [3, 4]
    made(tmp_path / "none", mode, rows, key="integer:5", Id="long")
    with pytest.raises(UnsupportedTable, match="The file has column 'Id' more than once"):
        rows_of(tmp_path / "none")
