"""The order of bounds in Parquet footers, and bounds that Arrow cannot read."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from splitlib import DynamicFilteringData
from splitlib.arrow.parquet_footer import parse_footer
from splitlib.reading.formats import RowGroupFilter
from splitlib.statistics.footers import rows_of_groups
from tests.unit.statistics.test_footers import of_values, written


@pytest.mark.parametrize("declared", [True, False])
def test_the_order_is_declared_by_the_last_bytes(declared: bool) -> None:
    content = of_values([1, 2])
    assert parse_footer(content).ordered == (True,)
    if not declared:
        # The list of orders is the last field: its header, and three bytes for each column.
        body = content[:-8].removesuffix(b"\x19\x1c\x1c\x00\x00\x00") + b"\x00"
        length = int.from_bytes(content[-8:-4], "little") - 5
        content = body + length.to_bytes(4, "little") + b"PAR1"
        assert parse_footer(content).ordered == (False,)


@pytest.mark.parametrize("other", [b"\x2c", b"\x3c", b"\x4c"])
def test_each_column_has_an_order_of_its_own(other: bytes) -> None:
    """Some writers give columns of floats an order that Parquet got in 2026."""
    content = written(pa.table({"a": ["x"], "f": [1.0], "b": ["y"]}), "pyarrow", {})
    orders = [b"\x1c", other, b"\x1c"]
    end = b"".join(order + b"\x00\x00" for order in orders) + b"\x00"
    changed = content[: -8 - len(end)] + end + content[-8:]
    is_known = other != b"\x4c"
    footer = parse_footer(changed)
    assert footer.ordered == ((True, False, True) if is_known else (False,) * 3)
    columns = [pa.field("a", pa.string()), pa.field("b", pa.string())]
    found = [rows[0].lower for rows in rows_of_groups(footer, columns)]
    assert found == (["x", "y"] if is_known else [None, None])


def test_statistics_of_bytes_of_a_fixed_length_are_not_read() -> None:
    """Writers in Rust cut such bounds after 64 bytes, and then Arrow would end the process."""
    kinds = {"a": pa.binary(100), "b": pa.decimal128(30, 2), "c": pa.int64()}
    values = {"a": [b"x" * 100], "b": [Decimal(1)], "c": [1]}
    table = pa.table({name: pa.array(values[name], kind) for name, kind in kinds.items()})
    footer = parse_footer(written(table, "pyarrow", {}))
    found = rows_of_groups(footer, [pa.field("a", pa.binary()), *list(table.schema)[1:]])
    assert [rows[0].has_null for rows in found] == [None, False, False]
    keys = DynamicFilteringData.from_arrow(pa.table({"a": [b"y" * 100]}))
    schema = pa.schema([("a", pa.binary())])
    kept = RowGroupFilter(schema, [keys])
    assert kept.keeps(footer, table.schema, [0], lambda values, _: values.cast(pa.binary())) == [0]
