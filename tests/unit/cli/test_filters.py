"""Filters as text arguments of the command line."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from splitlib import ConfigError, InvalidFilter
from splitlib.cli.filters import parse_filter, parse_range

SCHEMA = pa.schema(
    [("i", pa.int32()), ("s", pa.string()), ("d", pa.date32()), ("n", pa.decimal128(7, 2))]
)


def test_filter_values_have_the_types_of_the_columns() -> None:
    assert parse_filter(SCHEMA, "i=1, 2").contains({"i": 2})
    assert parse_filter(SCHEMA, 's="a,b",=c').contains({"s": "a,b"})
    assert parse_filter(SCHEMA, "s=x=y").contains({"s": "x=y"})
    assert parse_filter(SCHEMA, "d=2000-01-01").contains({"d": date(2000, 1, 1)})
    assert parse_filter(SCHEMA, "n=1.5").contains({"n": Decimal("1.50")})
    assert parse_filter(SCHEMA, "i=1,1").schema == pa.schema([("i", pa.int32())])
    assert parse_range(SCHEMA, "d=2000-01-01..").contains({"d": date(2020, 1, 1)})
    assert not parse_range(SCHEMA, "n=..1.5").contains({"n": Decimal("1.51")})


@pytest.mark.parametrize("text", ["s=....", "s=a..b..c", "s=...", "n=1...5"])
def test_ranges_that_can_be_divided_at_several_places_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"in several ways.*quote an end"):
        parse_range(SCHEMA, text)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ('s="a..b".."c"', ["a..b", "c"], ["a..", "d"]),
        ('s="..".."..z"', ["..", "..a"], [".", "./"]),
        ('s="..a"..', ["..a", "z"], ["..", "."]),
        ('s="a""..x"..b', ['a"..x', "b"], ['a"..', "c"]),
        ('s=a"..b"', ['a"', "b"], ["a", "c"]),
        ('s=""..a', ["", "a"], ["b"]),
        ("s=a.b..c.d", ["a.b", "c.d"], ["a", "d"]),
        ("n=1.5..2.5", [Decimal("1.50")], [Decimal(3)]),
    ],
)
def test_ends_of_ranges_may_have_dots(
    text: str, inside: list[object], outside: list[object]
) -> None:
    data = parse_range(SCHEMA, text)
    (name,) = data.fields
    assert all(data.contains({name: value}) for value in inside)
    assert not any(data.contains({name: value}) for value in outside)


@pytest.mark.parametrize("text", ['s="a..b', 's="a".b..c', "s=1", "s=a.b"])
def test_ranges_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_range(SCHEMA, text)


@pytest.mark.parametrize("text", ["i=", "=1", "i", ""])
def test_filters_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_filter(SCHEMA, text)


@pytest.mark.parametrize("text", ["d=2000-13-01", "n=1.234", "i=99999999999"])
def test_values_of_another_type_are_refused(text: str) -> None:
    with pytest.raises(InvalidFilter):
        parse_filter(SCHEMA, text)
