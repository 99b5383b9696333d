"""Bounds of files are never narrower than the values, whatever writers shorten."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from splitlib import DynamicFileEnumerator, DynamicFilteringData, SplitConfig
from tests.support.delta_log import add, commit, field, metadata, protocol, remove
from tests.unit.connectors.delta.tables import MAPPED, bounded, names, opened, simple, splits

EXACT: Final = Decimal("1234567890.123456789012345678")


def kept(root: Path, kind: Any, lower: Any, upper: Any, value: Any, **column: Any) -> bool:
    """Return whether a file with these bounds is read for a value."""
    commit(
        root,
        [
            protocol("typeWidening", "timestampNtz"),
            metadata([field("c", kind, **column)]),
            bounded("f", lower, upper),
        ],
    )
    found = bool(splits(root, {"c": [value]}))
    shutil.rmtree(root)
    return found


def test_bounds_are_as_wide_as_writers_shorten_them(root: Path) -> None:
    assert not kept(root, "string", "a", "b", "ba")
    assert kept(root, "string", "a", "b" * 32, "b" * 33)  # no last character was added
    assert kept(root, "string", "a", "b" * 32, "b" * 32 + "\U0010fffe")
    assert not kept(root, "string", "a", "b" * 31, "b" * 32)
    # Old versions of Delta cut after 32 units of UTF-16, and append U+FFFD.
    for value, cut in (
        ("a" * 32 + "\U0001f600", "a" * 32),
        ("\U0001f600" * 17, "\U0001f600" * 16),
        ("a" * 31 + "\U0001f600!", "a" * 31 + "?"),
    ):
        assert kept(root, "string", "a", f"{cut}\ufffd", value)
    # delta-rs writes bounds of decimals without fraction as 64-bit integers.
    for most in (2**63 - 1, -(2**63)):
        assert kept(root, "decimal(38,0)", most, most, Decimal(most * 3))
    assert not kept(root, "decimal(38,0)", -5, 7, Decimal(9))
    moment = datetime(2024, 1, 1, 12, 0, 0, 999_999)
    assert kept(root, "timestamp_ntz", "2024-01-01T00:00:00.000", "2024-01-01T12:00:00.999", moment)
    assert not kept(
        root, "timestamp_ntz", "2024-01-01T00:00:00.000", "2024-01-01T12:00:00.998", moment
    )
    instant = moment.replace(tzinfo=UTC)
    assert kept(
        root, "timestamp", "2024-01-01T00:00:00.000Z", "2024-01-01T17:30:00.999+05:30", instant
    )
    assert not kept(
        root, "timestamp", "2024-01-01T00:00:00.000Z", "2024-01-01T17:30:00.990+05:30", instant
    )
    exact = Decimal("1234567890.123456789012345678")
    assert kept(root, "decimal(38,18)", 0, float(exact), exact)
    assert kept(root, "decimal(38,18)", float(exact), 10**11, exact)
    assert not kept(root, "decimal(38,18)", 0, 1234567890.1, exact)
    changes = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    assert kept(root, "double", 0, 1.1, 1.100000023841858, **changes)
    assert not kept(root, "double", 0, 1.1, 1.100000023841858)
    assert not kept(root, "date", "2024-01-01", "2024-01-02", date(2024, 1, 3))
    assert kept(root, "date", "2024-13-01", "2024-99-99", date(2024, 1, 3))  # no such dates
    assert kept(root, "double", 1, 2, float("nan"))  # writers leave NaN out of the bounds


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("NaN", "NaN"),
        (1, "NaN"),
        ("-Infinity", "Infinity"),
        (None, None),
        ({}, []),
        ("x", "y"),
        (True, 1),
    ],
)
def test_bounds_that_are_no_numbers_are_unknown(root: Path, lower: Any, upper: Any) -> None:
    assert kept(root, "double", lower, upper, 7.5)


def test_columns_without_statistics_are_unknown(root: Path) -> None:
    columns = [field(f"c{i}", "long") for i in range(3)]
    known = {"minValues": {"c0": 1}, "maxValues": {"c0": 2}, "nullCount": {"c0": 0, "c1": 0}}
    commit(
        root,
        [protocol(), metadata(columns), add("f", stats=json.dumps({"numRecords": 9, **known}))],
    )
    commit(root, [add("g"), add("h", stats="")])
    assert names(splits(root, {"c0": [5]})) == ["g", "h"]
    assert names(splits(root, {"c1": [5]})) == ["f", "g", "h"]
    assert names(splits(root, {"c2": [5]})) == ["f", "g", "h"]


def test_a_dot_in_a_name_is_not_a_field_of_a_struct(root: Path) -> None:
    """Statistics of the column `a.b` say nothing about the field b of the column a."""
    inside = {"type": "struct", "fields": [field("b", "long"), field("c.d", "long")]}
    both = {"a": {"b": 1, "c.d": 1}, "a.b": 7, "a.c": {"d": 7}}
    known = {"minValues": both, "maxValues": both, "nullCount": {}}
    deeper = {"type": "struct", "fields": [field("d", "long")]}
    columns = [field("a", inside), field("a.b", "long"), field("a.c", deeper)]
    stats = json.dumps({"numRecords": 9, **known})
    commit(root, [protocol(), metadata(columns), add("f", stats=stats)])
    assert names(splits(root, {"a.b": [1]})) == ["f"]
    assert names(splits(root, {"a.b": [7]})) == []
    with opened(root) as table:
        assert table.metadata.filter_schema.names == ["a.b"]


def test_statistics_of_mapped_columns_have_physical_names(root: Path) -> None:
    renamed = field(
        "b", "long", **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "a"}
    )
    added = field(
        "a", "long", **{"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "col-2"}
    )
    known = {"minValues": {"a": 1}, "maxValues": {"a": 2}, "nullCount": {"a": 0}}
    commit(
        root,
        [
            protocol("columnMapping"),
            metadata([renamed, added], **MAPPED),
            add("f", stats=json.dumps({"numRecords": 9, **known})),
        ],
    )
    assert names(splits(root, {"b": [5]})) == []
    assert names(splits(root, {"a": [5]})) == ["f"]
    with opened(root) as table:
        assert table.metadata.read_format.columns == ((1, "a"), (2, "col-2"))


def test_elements_of_mapped_columns_have_ids_of_no_column(root: Path) -> None:
    kind = {"type": "array", "elementType": "long", "containsNull": True}
    fields = [
        field(name, kind, **{"delta.columnMapping.id": i, "delta.columnMapping.physicalName": name})
        for i, name in enumerate("abc", 1)
    ]
    commit(root, [protocol("columnMapping"), metadata(fields, **MAPPED), add("f")])
    with opened(root) as table:
        columns: Any = table.metadata.read_format.columns
    found = dict(columns)
    assert [found.pop(i) for i in (1, 2, 3)] == ["a", "b", "c"]
    assert list(found.values()) == ["element"] * 3


@pytest.mark.parametrize("json_too", [True, False])
def test_statistics_of_checkpoints_in_columns(root: Path, json_too: bool) -> None:
    changes = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    columns = [field("c", "double", **changes), field("s", "string")]
    columns += [field(name, "long") for name in "xy"]  # no bounds of y are stored
    files = [add(name) for name in "fgh"]
    commit(root, [protocol("typeWidening"), metadata(columns), *files])
    deltalake.DeltaTable(str(root)).create_checkpoint()
    (path,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    stored = pq.read_table(path)
    entries = stored["add"].to_pylist()
    bounds: dict[str, dict[str, Any]] = {
        "f": {"minValues": {"c": 1.0, "s": "a"}, "maxValues": {"c": 1.1, "s": "b"}},
        "g": {"minValues": {"c": 2.0, "s": None}, "maxValues": {"c": 2.0, "s": "c" * 32}},
        "h": {"minValues": {"c": None, "s": "d" * 32}, "maxValues": {"c": None, "s": "e"}},
    }
    nulls = {"f": {"c": 0, "s": 1}, "g": {"c": 0, "s": 0}, "h": {"c": 3, "s": None}}
    for ends in bounds.values():
        ends["minValues"]["x"] = ends["maxValues"]["x"] = "many"  # no integer
    kind = pa.struct([("c", pa.float32()), ("s", pa.string()), ("x", pa.string())])
    counts = pa.struct([("c", pa.int64()), ("s", pa.int64())])
    known = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", kind),
            ("maxValues", kind),
            ("nullCount", counts),
        ]
    )
    for entry in entries:
        if entry is not None:
            name = entry["path"]
            parsed = {"numRecords": 3, **bounds[name], "nullCount": nulls[name]}
            entry["stats"] = json.dumps({"numRecords": 3}) if json_too else None
            entry["stats_parsed"] = parsed
    typed = pa.struct([*stored["add"].type, pa.field("stats_parsed", known)])
    at = stored.schema.get_field_index("add")
    pq.write_table(stored.set_column(at, "add", pa.array(entries, typed)), path)
    assert names(splits(root, {"c": [1.5]})) == []
    assert names(splits(root, {"c": [1.100000023841858]})) == ["f"]  # the greatest float
    assert names(splits(root, {"c": [2.0]})) == ["g"]
    assert names(splits(root, {"c": [None]})) == ["h"]
    assert names(splits(root, {"s": ["bb"]})) == ["g"]
    assert names(splits(root, {"s": ["c" * 33]})) == ["g"]  # writers shorten texts
    assert names(splits(root, {"s": ["d" * 33]})) == ["h"]
    assert names(splits(root, {"s": [None]})) == ["f", "h"]
    for name in "xy":
        assert names(splits(root, {name: [1]})) == ["f", "g", "h"]


def test_int96_in_statistics_of_checkpoints(root: Path) -> None:
    """Spark writes timestamps as INT96. Not all of them fit in nanoseconds of 64 bits.

    Before 1900, they may be in the Julian calendar, so such bounds prove nothing.
    """
    years = {"f": (2020, 2021), "g": (2020, 9999), "h": (1, 1600)}
    commit(root, [protocol(), metadata([field("c", "timestamp")]), *(add(name) for name in years)])
    deltalake.DeltaTable(str(root)).create_checkpoint()
    (path,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    stored = pq.read_table(path)
    kind = pa.struct([("c", pa.timestamp("us", "UTC"))])
    counts = pa.struct([("c", pa.int64())])
    known = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", kind),
            ("maxValues", kind),
            ("nullCount", counts),
        ]
    )
    entries = stored["add"].to_pylist()
    for entry in filter(None, entries):
        lower, upper = ({"c": datetime(year, 1, 1, tzinfo=UTC)} for year in years[entry["path"]])
        entry["stats"] = None
        entry["stats_parsed"] = {
            "numRecords": 3, "minValues": lower, "maxValues": upper, "nullCount": {"c": 0}
        }  # fmt: skip
    typed = pa.struct([*stored["add"].type, pa.field("stats_parsed", known)])
    changed = stored.set_column(
        stored.schema.get_field_index("add"), "add", pa.array(entries, typed)
    )
    pq.write_table(changed, path, use_deprecated_int96_timestamps=True)
    for year, files in ((2020, "fgh"), (2050, "gh"), (9999, "gh"), (1500, "h"), (1950, "h")):
        assert names(splits(root, {"c": [datetime(year, 1, 1, tzinfo=UTC)]})) == list(files)


@pytest.mark.parametrize(
    ("kind", "of_arrow", "stored", "value"),
    [
        ("date", pa.date32(), date(1500, 1, 10), date(1500, 1, 1)),
        ("timestamp", pa.timestamp("us", "UTC"), datetime(1500, 1, 10), datetime(1500, 1, 1)),
        # delta-rs converts decimals to doubles.
        ("decimal(38,18)", pa.decimal128(38, 18), Decimal("1234567890.123457"), EXACT),
    ],
)
def test_bounds_of_checkpoints_that_writers_change(
    root: Path, kind: str, of_arrow: pa.DataType, stored: Any, value: Any
) -> None:
    commit(root, [protocol(), metadata([field("c", kind)]), add("f")])
    deltalake.DeltaTable(str(root)).create_checkpoint()
    (path,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    ends = pa.struct([("c", of_arrow)])
    known = pa.struct([("numRecords", pa.int64()), ("minValues", ends), ("maxValues", ends)])
    checkpoint = pq.read_table(path)
    entries = checkpoint["add"].to_pylist()
    for entry in filter(None, entries):
        bound = {"c": stored.replace(tzinfo=UTC) if kind == "timestamp" else stored}
        entry["stats"] = None
        entry["stats_parsed"] = {"numRecords": 1, "minValues": bound, "maxValues": bound}
    typed = pa.struct([*checkpoint["add"].type, pa.field("stats_parsed", known)])
    at = checkpoint.schema.get_field_index("add")
    pq.write_table(checkpoint.set_column(at, "add", pa.array(entries, typed)), path)
    value = value.replace(tzinfo=UTC) if kind == "timestamp" else value
    assert names(splits(root, {"c": [value]})) == ["f"]


def test_a_checkpoint_that_another_writer_replaced(root: Path) -> None:
    """Its rows may have another order, so the statistics are found by path."""
    simple(root, *(bounded(f"f%20{i}", 10 * i, 10 * i + 9) for i in range(4)))
    deltalake.DeltaTable(str(root)).create_checkpoint()
    (path,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    with opened(root) as table:
        rows = pq.read_table(path)
        pq.write_table(rows.take(list(reversed(range(len(rows))))), path)
        for i in range(4):
            enumerator = DynamicFileEnumerator(table, SplitConfig())
            enumerator.set_dynamic_filtering_data({"c": [10 * i + 5]})
            assert names(list(enumerator.enumerate_splits())) == [f"f {i}"]


@pytest.mark.parametrize(
    ("zone", "local", "printed"),
    [
        ("Asia/Shanghai", datetime(1900, 12, 31), "+08:05"),
        ("America/Sao_Paulo", datetime(1913, 1, 1), "-03:06"),
        ("Africa/Monrovia", datetime(1970, 1, 1), "-00:44"),
    ],
)
def test_offsets_of_zones_that_had_seconds(
    root: Path, zone: str, local: datetime, printed: str
) -> None:
    """Spark writes such offsets without their seconds."""
    text = f"{local.isoformat()}.000{printed}"
    value = local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    assert value != datetime.fromisoformat(text)
    assert kept(root, "timestamp", text, text, value)
    assert not kept(root, "timestamp", text, text, value + timedelta(minutes=3))


def test_a_column_with_a_default_that_files_lack(root: Path) -> None:
    """Spark's writer counts it as null in these files, and readers return the default."""
    columns = [field("c", "long"), field("d", "long", EXISTS_DEFAULT="5", CURRENT_DEFAULT="5")]
    known = {"numRecords": 2, "nullCount": {"c": 2, "d": 2}, "minValues": {}, "maxValues": {}}
    commit(root, [protocol(), metadata(columns), add("f", stats=json.dumps(known))])
    assert names(splits(root, {"d": [5]})) == ["f"]
    assert names(splits(root, {"c": [5]})) == []
    whole = field("s", {"type": "struct", "fields": [field("a", "long")]}, EXISTS_DEFAULT="x")
    known["nullCount"] = {"s": {"a": 2}}
    commit(root, [metadata([whole]), remove("f"), add("g", stats=json.dumps(known))])
    with opened(root) as table:
        assert "s.a" not in table.metadata.filter_schema.names


def test_dates_before_the_gregorian_calendar_prove_nothing(root: Path) -> None:
    assert kept(root, "date", "1500-01-10", "1500-01-10", date(1500, 1, 1))
    assert not kept(root, "date", "1600-01-10", "1600-01-10", date(1600, 1, 1))
    instant = datetime(1500, 1, 1, tzinfo=UTC)
    assert kept(root, "timestamp", "1500-01-10T00:00:00Z", "1500-01-10T00:00:00Z", instant)
    # Spark never converts TIMESTAMP_NTZ.
    local = datetime(1500, 1, 1)
    assert not kept(root, "timestamp_ntz", "1500-01-10T00:00:00", "1500-01-10T00:00:00", local)


def test_one_large_decimal_does_not_hide_the_bounds_of_others(root: Path) -> None:
    simple(
        root, bounded("f", 1, 2), bounded("g", 3, 9_999_999_999_999_999.99), kind="decimal(18,2)"
    )
    assert names(splits(root, {"c": [Decimal(8)]})) == ["g"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", date(2024, 1, 9)),
        ("timestamp", datetime(2024, 1, 9, tzinfo=UTC)),
        ("timestamp_ntz", datetime(2024, 1, 9)),
    ],
)
def test_one_malformed_time_does_not_hide_the_bounds_of_others(
    root: Path, kind: str, value: date
) -> None:
    ends = [value - timedelta(days=days) for days in (2, 1)]
    simple(
        root,
        bounded("f", *(end.isoformat() for end in ends)),
        bounded("g", "yesterday", "today"),
        kind=kind,
    )
    assert names(splits(root, {"c": [value]})) == ["g"]


def test_statistics_of_checkpoints_are_read_for_keys_of_data_columns_only(root: Path) -> None:
    simple(root, *(bounded(f"f{i}", 10 * i, 10 * i + 9) for i in range(20)))
    deltalake.DeltaTable(str(root)).create_checkpoint()
    commit(root, [bounded("g", 0, 5)])
    for wanted, files, reads in (({"c": [3]}, ["f0", "g"], 1), (None, None, 0)):
        with opened(root) as table:
            enumerator = DynamicFileEnumerator(table, SplitConfig())
            if wanted:
                enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_values(wanted))
            found = list(enumerator.enumerate_splits())
            assert enumerator.metrics.storage_requests == reads
            assert files is None or names(found) == files
