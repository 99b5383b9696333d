"""Athena's partition projection: values, their inversion, and locations."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import splitlib
from splitlib.hive.projected_dates import DateFormat, plus_months
from splitlib.hive.projection import Projection, is_projected, projected

NOW = datetime(2024, 2, 29, 13, 14, 15, 678_000)
# Patterns of Java, the same for strftime, and the finest unit.
FORMATS = {
    "yyyy": ("%Y", "YEARS"),
    "yyyy-MM": ("%Y-%m", "MONTHS"),
    "yyyyMMdd": ("%Y%m%d", "DAYS"),
    "dd.MM.uuuu": ("%d.%m.%Y", "DAYS"),
    "yyyy/MM/dd/HH": ("%Y/%m/%d/%H", "HOURS"),
    "yyyy-MM-dd'T'HH:mm": ("%Y-%m-%dT%H:%M", "MINUTES"),
    "yyyyMMddHHmmss": ("%Y%m%d%H%M%S", "SECONDS"),
    "yyyy''MM": ("%Y'%m", "MONTHS"),
    "'y'''yy'm'M'd'd": ("y'%ym%-md%-d", "DAYS"),
}
UNITS = ("YEARS", "MONTHS", "WEEKS", "DAYS", "HOURS", "MINUTES", "SECONDS")


def values_of(kind, now=NOW, **properties):
    given = {name.replace("_", "."): str(value) for name, value in properties.items()}
    return projected(pa.field("k", kind), given, now)


def texts(found):
    return [found.text(number) for number in range(found.count)]


@st.composite
def integers(draw):
    first = draw(st.integers(-120, 120))
    last = first + draw(st.integers(0, 60))
    interval, digits = draw(st.integers(1, 9)), draw(st.integers(0, 4))
    naive, number = [], first
    while number <= last:
        sign, rest = ("-", str(-number)) if number < 0 else ("", str(number))
        naive.append(sign + rest.rjust(digits - len(sign), "0"))
        number += interval
    properties = {"type": "integer", "range": f" {first} ,{last}", "interval": interval}
    if digits:
        properties["digits"] = digits
    return properties, naive


@st.composite
def dates(draw):
    pattern = draw(st.sampled_from(sorted(FORMATS)))
    text, finest = FORMATS[pattern]
    unit = draw(
        st.sampled_from([each for each in UNITS if UNITS.index(each) <= UNITS.index(finest)])
    )
    if unit == "WEEKS" and finest not in ("DAYS", "HOURS", "MINUTES", "SECONDS"):
        unit = finest
    moments = st.datetimes(datetime(2001, 1, 1), datetime(2060, 1, 1))
    first = draw(moments).replace(microsecond=0)
    first = first.replace(day=min(first.day, 28))
    first = datetime.strptime(first.strftime(text), text.replace("%-", "%"))
    interval, count = draw(st.integers(1, 7)), draw(st.integers(1, 30))
    naive, moment = [], first
    for _ in range(count):
        naive.append(moment)
        for _ in range(interval):
            moment = next_moment(moment, unit)
    naive = [each for each in naive if each.year < 2069] or naive[:1]
    ends = f"{first.strftime(text)},{naive[-1].strftime(text)}"
    properties = {"type": " Date ", "format": pattern, "range": ends}
    properties |= {"interval": interval, "interval_unit": unit.lower()}
    return properties, naive, text


def next_moment(moment, unit):
    if unit == "YEARS":
        return moment.replace(year=moment.year + 1)
    if unit == "MONTHS":
        return moment.replace(year=moment.year + moment.month // 12, month=moment.month % 12 + 1)
    return moment + timedelta(**{unit.lower(): 1})


@given(integers(), st.lists(st.integers(-200, 200)))
def test_integers(drawn, others):
    properties, naive = drawn
    as_int, as_text = values_of(pa.int32(), **properties), values_of(pa.string(), **properties)
    assert texts(as_int) == texts(as_text) == naive
    numbers = [int(text) for text in naive]
    for value in [*numbers, *others]:
        expected = numbers.index(value) if value in numbers else None
        assert as_int.position(value) == expected
        for text in (str(value), f"{value:03d}", f" {value}", f"+{value}"):
            assert as_text.position(text) == (naive.index(text) if text in naive else None)
    assert [as_int.value(number) for number in range(as_int.count)] == numbers


@given(dates(), st.data())
@settings(max_examples=2 * settings().max_examples)
def test_dates(drawn, data):
    properties, naive, text = drawn
    found = values_of(pa.string(), **properties)
    expected = [moment.strftime(text) for moment in naive]
    assert texts(found) == expected
    near = data.draw(st.sampled_from(naive)) + timedelta(
        seconds=data.draw(st.integers(-(10**6), 10**6))
    )
    for each in [*expected, near.strftime(text), "", "2024", f"{expected[0]} "]:
        assert found.position(each) == (expected.index(each) if each in expected else None)


@given(dates())
def test_dates_of_keys_with_dates(drawn):
    properties, naive, text = drawn
    if FORMATS[properties["format"]][1] not in ("YEARS", "MONTHS", "DAYS"):
        with pytest.raises(splitlib.UnsupportedTable, match="a format with hours"):
            values_of(pa.date32(), **properties)
        return
    found = values_of(pa.date32(), **properties)
    days = [moment.date() for moment in naive]
    assert texts(found) == [day.isoformat() for day in days]
    assert [found.in_location(n) for n in range(found.count)] == [d.strftime(text) for d in days]
    for day in {*days, *(day + timedelta(days=1) for day in days)}:
        assert found.position(day) == (days.index(day) if day in days else None)
    assert [found.value(number) for number in range(found.count)] == days


@pytest.mark.parametrize(
    ("unit", "second"),
    [
        *(("YEARS", "20250101000000000"), ("MONTHS", "20240201000000000")),
        *(("WEEKS", "20240108000000000"), ("DAYS", "20240102000000000")),
        *(("HOURS", "20240101010000000"), ("MINUTES", "20240101000100000")),
        *(("SECONDS", "20240101000001000"), ("MILLIS", "20240101000000001")),
    ],
)
def test_second_value_of_each_unit(unit, second):
    ends = {"range": "20240101000000000,20250101000000000", "format": "yyyyMMddHHmmssSSS"}
    found = values_of(pa.string(), type="date", **ends, interval=1, interval_unit=unit)
    assert (found.text(1), found.position(second)) == (second, 1)


@pytest.mark.parametrize(
    ("pattern", "text", "moment"),
    [
        ("yyyyMMddHHmmssSSS", "20240209030405678", (2024, 2, 9, 3, 4, 5, 678_000)),
        ("uuuu-MM-dd HH:mm:ss", "2024-02-09 03:04:05", (2024, 2, 9, 3, 4, 5)),
        ("u/M/d H:m:s", "2024/2/9 3:4:5", (2024, 2, 9, 3, 4, 5)),
        ("y/M/d H:m", "2024/2/9 3:4", (2024, 2, 9, 3, 4)),
        ("yyMMdd", "240209", (2024, 2, 9)),
        ("uuMM", "2402", (2024, 2, 1)),
    ],
)
def test_each_field_of_a_format(pattern, text, moment):
    form = DateFormat(pattern)
    assert form.write(datetime(2024, 2, 9, 3, 4, 5, 678_000)) == text
    assert form.read(text) == datetime(*moment)


def test_largest_numbers_of_properties():
    padded = values_of(pa.int32(), type="integer", range="7,7", digits=100)
    assert texts(padded) == [f"{7:0100d}"]
    years = {"type": "date", "format": "yyyy", "range": "2024,NOW"}
    assert texts(values_of(pa.string(), **years, interval=10**6, interval_unit="YEARS")) == ["2024"]


def test_enum():
    found = values_of(pa.string(), type="ENUM", values="b, a,b,,C")
    assert texts(found) == ["b", " a", "", "C"]


@pytest.mark.parametrize(
    ("ends", "first", "last", "count"),
    [
        ("2024-02-27,NOW", "2024-02-27", "2024-02-29", 3),
        ("NOW-1DAY, NOW + 2 DAYS ", "2024-02-28", "2024-03-02", 4),
        ("NOW-1WEEKS,NOW", "2024-02-22", "2024-02-29", 8),
        ("NOW-1YEAR,NOW", "2023-02-28", "2024-02-29", 367),
        ("NOW-3MONTHS,NOW", "2023-11-29", "2024-02-29", 93),
        ("NOW,NOW+11HOURS", "2024-02-29", "2024-03-01", 2),
        ("NOW,NOW+10HOURS", "2024-02-29", "2024-02-29", 1),
    ],
)
def test_ranges_relative_to_now(ends, first, last, count):
    found = values_of(pa.string(), type="date", format="yyyy-MM-dd", range=ends)
    assert (found.text(0), found.text(found.count - 1), found.count) == (first, last, count)


@pytest.mark.parametrize("unit", ["MONTHS", "YEARS"])
@pytest.mark.parametrize("day", [1, 28, 29, 31])
def test_the_day_does_not_decide_whether_a_range_is_valid(unit, day):
    def of(form):
        properties = {"type": "date", "format": form, "range": "NOW-3YEARS,NOW"}
        return values_of(
            pa.string(), datetime(2024, 1, day), **properties, interval=1, interval_unit=unit
        )

    for form in ("yyyy-MM-dd", "yyyy-MM-dd HH"):
        with pytest.raises(splitlib.UnsupportedTable, match="a day relative to NOW"):
            of(form)
    assert of("yyyy-MM").count == (37 if unit == "MONTHS" else 4)


def test_default_intervals():
    def of(form, ends):
        return texts(values_of(pa.string(), type="date", format=form, range=ends))

    assert of("yyyyMM", "202311,202402") == ["202311", "202312", "202401", "202402"]
    assert of("yyyy", "2022,NOW") == ["2022", "2023", "2024"]
    assert of("yyyy-M-d", "2024-2-28,NOW+1DAY") == ["2024-2-28", "2024-2-29", "2024-3-1"]


def test_range_may_end_between_two_values():
    monthly = {"type": "date", "format": "yyyyMMdd", "interval": 1, "interval_unit": "MONTHS"}
    found = values_of(pa.string(), **monthly, range="20240115,20240314")
    assert texts(found) == ["20240115", "20240215"]
    assert found.position("20240315") is None
    weekly = {**monthly, "interval_unit": "WEEKS", "range": "20240101,20240114"}
    assert texts(values_of(pa.string(), **weekly)) == ["20240101", "20240108"]


def test_only_the_written_form_is_a_value():
    found = values_of(pa.string(), type="date", format="yyyy-M-d", range="2024-1-1,2024-12-1")
    assert found.position("2024-1-2") == 1
    assert found.position("2024-01-02") is None


def test_timestamps_and_other_types():
    hours = {"type": "date", "format": "yyyy-MM-dd-HH", "range": "2024-01-01-00,2024-01-01-02"}
    found = values_of(pa.timestamp("us", "UTC"), **hours, interval=1, interval_unit="HOURS")
    assert texts(found)[2] == "2024-01-01 02:00:00"
    assert found.in_location(2) == "2024-01-01-02"
    assert found.position is None  # the time zone is that of the reader
    years = values_of(pa.int32(), type="date", format="yyyy", range="2023,NOW")
    assert texts(years) == ["2023", "2024"]
    floats = values_of(pa.float64(), type="integer", range="0,1")
    char = pa.field("k", pa.string(), metadata={b"splitlib.logical_type": b"char(4)"})
    ends = {"range": "2023,2024", "format": "yyyy"}
    of_char = [projected(char, {**ends, "type": kind}, NOW) for kind in ("integer", "date")]
    for found in (years, floats, *of_char):
        assert (found.position, found.value) == (None, None)
    assert [texts(found) for found in of_char] == [["2023", "2024"]] * 2
    millis = {"type": "date", "format": "ss.SSS", "range": "0,1"}
    with pytest.raises(splitlib.UnsupportedTable, match="date format"):
        values_of(pa.string(), **millis)
    millis = {"type": "date", "format": "yyyyMMddHHmmssSSS", "range": "NOW,NOW"}
    found = values_of(pa.string(), **millis, interval=1, interval_unit="MILLIS")
    assert texts(found) == ["20240229131415678"]


@pytest.mark.parametrize(
    ("kind", "properties", "message"),
    [
        (pa.string(), {}, "of type ''"),
        (pa.string(), {"type": "list"}, "of type 'list'"),
        (pa.int32(), {"type": "injected"}, "injected' does not apply to int32"),
        (pa.date32(), {"type": "integer", "range": "1,2"}, "does not apply to date32"),
        (pa.bool_(), {"type": "integer", "range": "0,1"}, "does not apply to bool"),
        (pa.binary(), {"type": "date", "range": "NOW,NOW"}, "does not apply to binary"),
        (pa.string(), {"type": "enum"}, "no property 'values'"),
        (pa.int32(), {"type": "integer"}, "no property 'range'"),
        (pa.int32(), {"type": "integer", "range": "1-5"}, "two integers"),
        (pa.int32(), {"type": "integer", "range": "1,2,3"}, "two integers"),
        (pa.int32(), {"type": "integer", "range": "1,1e3"}, "two integers"),
        (pa.int32(), {"type": "integer", "range": "5,1"}, "range that is empty"),
        (pa.int32(), {"type": "integer", "range": "0,9223372036854775808"}, "64-bit integers"),
        (pa.int32(), {"type": "integer", "range": "0,1", "interval": "0"}, "'interval' with value"),
        (
            pa.int32(),
            {"type": "integer", "range": "0,1", "interval": "-1"},
            "'interval' with value",
        ),
        (pa.int32(), {"type": "integer", "range": "0,1", "digits": "101"}, "100 digits"),
        (
            pa.string(),
            {
                "type": "date",
                "format": "yyyy",
                "range": "NOW,NOW",
                "interval": "1000001",
                "interval_unit": "YEARS",
            },
            "interval above a million",
        ),
        (pa.string(), {"type": "date", "range": "NOW,NOW"}, "no property 'format'"),
        (pa.string(), {"type": "date", "format": "yyyy", "range": "2020"}, "two dates"),
        (pa.string(), {"type": "date", "format": "yyyy", "range": "20,21"}, "two dates"),
        (pa.string(), {"type": "date", "format": "yyyy", "range": "2021 ,NOW"}, "two dates"),
        (
            pa.string(),
            {"type": "date", "format": "yyyy", "range": "NOW-9999YEARS,NOW"},
            "two dates",
        ),
        (pa.string(), {"type": "date", "format": "yyyyMMdd", "range": "20210231,NOW"}, "two dates"),
        (pa.string(), {"type": "date", "format": "yyyy", "range": "NOW,2020"}, "ends before"),
        (pa.string(), {"type": "date", "format": "yyyy-MM-dd HH", "range": "NOW,NOW"}, "needs an"),
        (
            pa.string(),
            {"type": "date", "format": "yyyy", "range": "2020,NOW", "interval": "2"},
            "needs an interval",
        ),
        (
            pa.string(),
            {"type": "date", "format": "yyyyMM", "range": "NOW,NOW", "interval_unit": "AGES"},
            "unknown unit 'AGES'",
        ),
        (
            pa.string(),
            {"type": "date", "format": "yyyyMM", "range": "NOW,NOW", "interval_unit": "DAYS"},
            "finer than its format",
        ),
        (
            pa.string(),
            {
                "type": "date",
                "format": "yyyyMMdd",
                "range": "20240129,NOW",
                "interval_unit": "MONTHS",
            },
            "not every month",
        ),
    ],
    ids=str,
)
def test_invalid_projections(kind, properties, message):
    with pytest.raises(splitlib.UnsupportedTable, match=re.escape(message)) as caught:
        values_of(kind, **properties)
    assert "partition_projection=False" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "dd", "MM-yyyy-HH", "yyyyMMMdd", "yyyy-MM-dd hh", "yyyy-MM-dd[HH]", "yyyy-Md"),
        *("yyyy-MM-MM", "yyyy'", "EEE yyyy", "yyy", "yyyyDDD", "yyyyMMddHHmmssS", "x{yyyy}"),
        "{yyyy",
    ],
)
def test_unsupported_formats(pattern):
    with pytest.raises(splitlib.UnsupportedTable, match="date format"):
        DateFormat(pattern)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), st.integers(-900, 900))
def test_months(moment, months):
    found = plus_months(moment, months)
    assert (found.year - moment.year) * 12 + found.month - moment.month == months
    assert found.day == moment.day or (found.day < moment.day and (found + timedelta(1)).day == 1)


KEYS = pa.schema([("day", pa.string()), ("N", pa.int32())])
PROPERTIES = {
    "projection.enabled": "TRUE",
    "projection.day.type": "enum",
    "projection.day.values": "a/b,c=d",
    "projection.n.type": "integer",
    "projection.n.range": "1,2",
}


def test_locations():
    def location(template, root="s3://b/t/"):
        named = {} if template is None else {"storage.location.template": template}
        return Projection({**PROPERTIES, **named}, KEYS, root).location(["a/b", "07"])

    assert location(None) == "s3://b/t/day=a%2Fb/n=07"
    assert location("s3://c/${day}/x/${n}/${day}/") == "s3://c/a/b/x/07/a/b"
    assert location("s3://c/${N}-${day}~/", root=None) == "s3://c/07-a/b~"
    assert location(None, "s3://b/~//") == "s3://b/~/day=a%2Fb/n=07"
    for template in ("s3://c/${day}/", "s3://c/${day}/{n}", "s3://c/${day}/${n}/${m}"):
        with pytest.raises(splitlib.UnsupportedTable, match="placeholder for each"):
            location(template)
    with pytest.raises(splitlib.UnsupportedTable, match="no location"):
        location(None, root=None)


def test_which_tables_are_projected():
    assert is_projected(PROPERTIES)
    assert not is_projected({})
    assert not is_projected({"projection.enabled": "false"})
    found = Projection(PROPERTIES, KEYS, "s3://b/t").values(NOW)
    assert [texts(each) for each in found] == [["a/b", "c=d"], ["1", "2"]]


def test_more_digits_than_a_number_has():
    found = values_of(pa.string(), type="integer", range="1,9", digits=20)
    text = "5".rjust(20, "0")
    assert found.position(text) == 4
    assert found.position("5" * 20) is None
