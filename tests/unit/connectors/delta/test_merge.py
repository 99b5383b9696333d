"""``splitlib.merge_condition`` prunes the target of deltalake's own MERGE, and changes no rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import splitlib
from splitlib.errors import InvalidFilter

DAYS = pa.date32()
# Values of the target's key, by their type. The first three are in the source.
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [-(2**63), 2**63 - 1, 0, 5, None],
    pa.int16(): [-7, 3, 4, 5, None],
    DAYS: [date(1, 1, 1), date(2024, 2, 29), date(2024, 3, 1), date(9999, 12, 31), None],
    pa.timestamp("us", "UTC"): [
        datetime(1582, 10, 4, 1, 2, 3, 456789, UTC),
        datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
        datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
        None,
    ],
    pa.timestamp("us"): [
        datetime(1, 1, 1),
        datetime(2024, 1, 1, 12, 0, 0, 1),
        datetime(2024, 1, 1, 12),
        datetime(9999, 12, 31),
        None,
    ],
    pa.string(): ['it\'s "a" \\ é', "x' OR 1 = 1 --", "b", "", None],
    pa.decimal128(9, 2): [
        Decimal("-0.01"),
        Decimal("1234567.89"),
        Decimal("1.20"),
        Decimal(0),
        None,
    ],
    pa.binary(): [b"", b"'\\\x00\xff", b"ab", b"a", None],
    pa.date64(): [date(1, 1, 1), date(2024, 2, 29), date(2024, 3, 1), date(9999, 12, 31), None],
    pa.bool_(): [True, True, False, False, None],
    pa.float64(): [0.1, float("nan"), -0.0, 3.0, None],
}
VALUES[pa.string_view()] = VALUES[pa.string()]  # of Polars
MOMENTS = [datetime(1970, 1, 1), datetime(2024, 10, 27, 1, 30), datetime(9000, 1, 1)]
VALUES[pa.timestamp("ms", "UTC")] = [*MOMENTS, datetime(2024, 1, 1), None]
VALUES[pa.timestamp("s")] = [*MOMENTS, datetime(2024, 1, 1), None]
# Types with bounds by which deltalake skips files.
SKIPPED = (pa.int64(), DAYS, pa.date64(), pa.string(), pa.decimal128(9, 2))


def merged(root: Path, target: pa.Table, source: pa.Table, predicate: str) -> tuple[Any, int]:
    """Write a table with a file per row and merge into it. Return the rows and files scanned."""
    for row in range(target.num_rows):
        deltalake.write_deltalake(str(root), target.slice(row, 1), mode="append")
    table = deltalake.DeltaTable(str(root))
    metrics = (
        table.merge(source, predicate, source_alias="s", target_alias="t", streamed_exec=False)
        .when_matched_update({"v": "s.v"})
        .when_not_matched_insert({"k": "s.k", "v": "s.v"})
        .execute()
    )
    found = pa.table(
        deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
    )
    return sorted(map(str, found.select(["k", "v"]).to_pylist())), metrics[
        "num_target_files_scanned"
    ]


@pytest.mark.parametrize("limit", [1000, 2])
@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_rows_of_a_merge(
    kind: pa.DataType, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITLIB_CONDITION_LITERALS", str(limit))
    values = VALUES[kind]
    target = pa.table({"k": pa.array(values, kind), "v": pa.array(range(5), pa.int64())})
    keys = pa.array([*dict.fromkeys(values[:3]), None], kind)
    if pa.types.is_string_view(kind):
        keys = keys.dictionary_encode() if limit > 2 else keys
    source = pa.table({"k": keys, "v": pa.array([-1 - i for i in range(len(keys))], pa.int64())})
    condition = splitlib.merge_condition(source, {"t.k": "k"})
    expected, all_files = merged(tmp_path / "plain", target, source, "t.k = s.k")
    found, files = merged(tmp_path / "pruned", target, source, f"t.k = s.k AND {condition}")
    assert found == expected, condition
    assert files <= all_files
    if limit > 2 and kind in SKIPPED:
        assert files <= 3, condition
    null_safe = splitlib.merge_condition(source, {"t.k": "k"}, null_safe=True)
    on = "(t.k IS NOT DISTINCT FROM s.k)"
    expected, _ = merged(tmp_path / "plain null", target, source, on)
    assert merged(tmp_path / "null", target, source, f"{on} AND {null_safe}")[0] == expected


@pytest.mark.parametrize(
    ("column", "key", "value"),
    [
        (pa.decimal128(38, 18), pa.decimal128(38, 18), Decimal("12345.678901234567890123")),
        (pa.decimal128(38, 18), pa.decimal128(38, 18), Decimal("0.333333333333333333")),
        (pa.decimal128(38, 18), pa.decimal128(10, 2), Decimal("1538.07")),
        (pa.decimal128(38, 18), pa.int64(), 12345),
        (pa.decimal128(18, 2), pa.decimal128(18, 2), Decimal("1538727001565534.24")),
        (pa.decimal128(38, 0), pa.decimal128(38, 0), Decimal(10**30)),
        (pa.decimal128(38, 0), pa.decimal128(38, 0), Decimal(-(10**38) + 1)),
        (pa.decimal128(20, 0), pa.int64(), 8135142535959080699),
        (pa.decimal128(38, 37), pa.decimal128(38, 37), Decimal("9." + "9" * 37)),
    ],
)
def test_numbers_whose_bounds_are_rounded(
    tmp_path: Path, column: pa.DataType, key: pa.DataType, value: Any
) -> None:
    target = pa.table({"k": pa.array([Decimal(value)], column), "v": pa.array([0], pa.int64())})
    source = pa.table({"k": pa.array([value], key), "v": pa.array([1], pa.int64())})
    condition = splitlib.merge_condition(source, {"t.k": "k"})
    plain, _ = merged(tmp_path / "plain", target, source, "t.k = s.k")
    assert merged(tmp_path / "pruned", target, source, f"t.k = s.k AND {condition}")[0] == plain


def test_text_of_conditions() -> None:
    source = pa.table({"day": pa.array([1, 2, None], pa.int32()).cast(DAYS), "id": [7, None, 9]})
    assert splitlib.merge_condition(source, {"t.day": "day", "t.id": "id"}) == (
        '(("t"."day" = arrow_cast(1, \'Date32\') AND ("t"."id" > 6 AND "t"."id" < 8)))'
    )
    assert splitlib.merge_condition(source, {'t.`a"b`': "id"}) == (
        '(("t"."a""b" > 6 AND "t"."a""b" < 8) OR ("t"."a""b" > 8 AND "t"."a""b" < 10))'
    )
    assert splitlib.merge_condition(source.slice(2), {"t.day": "day"}) == "false"
    # A date64 with a time of day equals no date. Its day is before 1970, and is not rounded up.
    others = pa.table({"b": [b"'\xff", b""], "d": pa.array([-5, 0], pa.int64()).view(pa.date64())})
    assert splitlib.merge_condition(others, {"t.b": "b"}) == (
        '("t"."b" = X\'\' OR "t"."b" = X\'27ff\')'
    )
    assert splitlib.merge_condition(others, {"t.d": "d"}) == (
        '("t"."d" = arrow_cast(-1, \'Date32\') OR "t"."d" = arrow_cast(0, \'Date32\'))'
    )
    with pytest.raises(InvalidFilter, match="no column nope"):
        splitlib.merge_condition(source, {"t.day": "nope"})
    with pytest.raises(InvalidFilter, match="int is not a table"):
        splitlib.merge_condition(5, "day")
