"""splitlib and Spark's Hive reader return the same rows of Hive text tables."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from splitlib.spark.conversion import jvm_time_zone
from splitlib.spark.formats.hive_text import hive_text_columns
from tests.integration.formats.hive_reader import Hive
from tests.spark_session import JVM_ZONE
from tests.support.abilities import struct_of

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

PRIMITIVES = (
    "i1 tinyint, i2 smallint, i4 int, i8 bigint, f float, d double, d1 decimal(10,2),"
    " d2 decimal(38,18), d3 decimal(38,37), b boolean, dt date, ts timestamp, s string,"
    " x binary, c char(5), v varchar(3)"
)
NESTED = (
    "a array<int>, m map<string,int>, s struct<x:int,y:string,z:array<string>>,"
    " aa array<array<string>>, mm map<int,struct<p:string,q:map<string,string>>>,"
    " c struct<c:char(3),v:array<varchar(2)>>, md map<date,binary>, last string"
)


def words(text: str) -> list[str]:
    return text.split()


NUMBERS = words("""
 1 -1 +5 00012 1.7 -1.7 .5 5. . -.5 +.5 -. ..5 1.2.3 0x10 \\N NULL null N 128 -128 -129 32768 -32768
 2147483647 2147483648 -2147483648 9223372036854775807 9223372036854775808 -9223372036854775809
 1e3 1E3 1d 1f 1D 1L 1e 1e+ 1e-3 1e99 1e100 0e100 1e005 1.5e1 1e1.5 NaN nan +NaN NAN Infinity
 -Infinity inf INF infinity 0x1p3 0x1.8p1 1_000 --1 +-1 1- -0 -0.0 1.005 1.004999 -1.005 1.015
 12345678.995 99999999.994 99999999.995 123456789.1 1e-39 4.9e-38 5e-39 15e-39 14e-39 1e38 1e37
""")
NUMBERS += [
    " 5",
    "5 ",
    "\t1\t",
    "1 2",
    "NaN ",
    " NaN",
    " NaN ",
    "1\0",
    "\01",
    "1\x0b",
    "1\xa0",
    "\u0661",
]
# A Hive decimal has at most 38 digits. Hive rounds a longer text to 38 digits, and then to the
# scale of the column.
NUMBERS += [
    *("9" * 38, "9" * 39, "1" * 38 + ".5", "9" * 38 + ".5", "9" * 20 + "." + "5" * 30),
    *(
        "1.4" + "9" * 40,
        "1.00" + "4" + "9" * 34 + "5",
        "1.00" + "4" + "9" * 34 + "4",
        "1." + "4" * 60,
    ),
    *("0.00" + "4" + "9" * 36, "0." + "0" * 37 + "49", "-9." + "9" * 45, "0." + "9" * 45),
    *("1." + "5" * 50 + "e-3", "0." + "1" * 37 + "5" * 10 + "e1"),
    *("0e5", "-0e1", "0E-99", "00.0e3", "0" * 45),
]
BOOLEANS = ["true", "TRUE", "tRuE", "false", "FALSE", "t", "yes", "truee", " true", "fal\xdfe"]
DATES = words("""
 2020-01-01 2020-1-1 2020-02-30 2020-02-31 2021-02-29 2020-13-01 2020-00-01 2020-01-00 2020-01-32
 20-01-01 02020-01-01 +202-1-1 +202-+1-+1 -202-1-1 2020/01/01 2020-01-01T00:00:00 0000-01-01
 0000-02-31 0001-01-01 0001-1-1 0004-02-29 0100-02-29 1400-02-31 1500-02-28 1500-02-29 1500-02-30
 1500-03-01 1581-12-31 1582-01-01 1582-02-30 1582-10-04 1582-10-05 1582-10-14 1582-10-15 1582-11-31
 9999-12-31 1969-12-31 1900-01-01 1883-11-18 2020-1- 2020--1 2020-01-1a 20200-1-1
 \u0662\u0660\u0662\u0660-\u0660\u0661-02
""")
DATES += ["2020-01-01 ", " 2020-01-01"]
TIMES = words("""
 00:00:00 00:00:00.1 00:00:00.123456 00:00:00.123456789 00:00:00.1234567890 00:00:00. 00:00:00.-1
 1:2:3 23:59:59.9999999 +1:00:00 00:00 1:2:3:4 2147483648:00:00 00:00:00Z 00:00:00+01:00
""")
LONG_TIMES = words("24:00:00 25:61:61 48:00:00 -1:00:00 00:-1:-1.5 2147483647:00:00 00:00:86400")
TIMESTAMPS = [
    *(f"{day} {time}" for day in ("2020-01-01", "2020-02-31") for time in TIMES + LONG_TIMES),
    *(f"{day} {time}" for day in DATES for time in ("00:00:00.5", "23:59:59")),
]
# These times are near changes of the clock, for example the start of daylight saving time.
TIMESTAMPS += [
    text.replace("_", " ")
    for text in words("""
 2020-03-08_01:59:59.9 2020-03-08_02:30:00 2020-03-08_03:00:00 2020-11-01_00:59:59
 2020-11-01_01:00:00 2020-11-01_01:30:00.5 2020-11-01_01:59:59.999999 2020-11-01_02:00:00
 2020-10-31_25:30:00 2020-11-01_00:90:00 1883-11-18_11:59:59 1883-11-18_12:01:00
 1883-11-18_12:03:58 1945-08-14_18:59:59 1967-10-29_01:30:00 1900-01-01_00:00:00
""")
]
TIMESTAMPS += ["2020-01-01  00:00:00", " 2020-01-01 00:00:00 ", "2020-01-01\t00:00:00"]
BINARIES = words("""
 YWJj YWI= YQ== YQ YQ= Y = == YW=Jj -_-_ +/+/ hello! YR== YWJjZ YWJjZA \\N
""")
BINARIES += ["YWJj YWJj", "hello world!", "    ", "a b"]
BINARIES_OF_BYTES = [b"YW" + bytes([i]) + b"Jj" for i in range(256) if i not in b"\x01\n\r"]
STRINGS = [
    *("", "abc", "\xe9\u6f22\U0001f600z", "ab   ", "   ab", "abcdefgh", "      ", "abcde  "),
    *("\u3000\u3000a", "a\u0301bcdef", "\ufeffx", "\U0001f600" * 6),
]
NOT_UTF8 = [
    *(b"\xff", b"a\xffb", b"\xc3", b"\xe6\xbc", b"\xed\xa0\x80", b"\xc0\x80", b"\xe6\xbc\x41"),
    *(b"\xf8\x88\x80\x80\x80", b"\xf0\x9f\x41\x80", b"\xf4\x90\x80\x80abc"),
]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_every_spelling_of_every_type(hive: Hive, ansi: str) -> None:
    texts = [*NUMBERS, *BOOLEANS, *DATES, *TIMESTAMPS, *BINARIES, *STRINGS]
    fields = [*(text.encode() for text in texts), *BINARIES_OF_BYTES, *NOT_UTF8]
    width = PRIMITIVES.count(",") - 2  # Three commas belong to ``decimal(…)`` types.
    hive.spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        rows = hive.same(PRIMITIVES, b"\n".join(b"\x01".join([f] * width) for f in fields))
    finally:
        hive.spark.conf.unset("spark.sql.ansi.enabled")
    # Comparing the readers proves little unless every column has both values and nulls.
    columns = list(zip(*rows, strict=True))
    assert all(len(set(column)) > 2 for column in columns)
    assert all(None in column for column in columns)


def test_a_time_longer_than_a_day_in_another_calendar_is_refused(hive: Hive) -> None:
    line = F.lit("1500-02-28 48:00:00")
    schema = StructType().add("a", "timestamp")
    columns = hive_text_columns(line, schema, {}, time_zone=JVM_ZONE)
    with pytest.raises(Exception, match="as Hive reads it"):
        hive.spark.range(1).select(columns).collect()


def test_number_and_ends_of_lines(hive: Hive) -> None:
    data = b"\xef\xbb\xbfx\ny#1\r\nz#2#w#extra\n\n\r\n###\rq#3#\r\n\rlast#4#\r"
    assert len(hive.same("a string, b int, c string", data.replace(b"#", b"\x01"))) == 9


@pytest.mark.parametrize(
    ("separator", "byte"),
    [
        *((",", b","), ("\t", b"\t"), ("\\", b"\\"), ("^", b"^"), ("a", b"a"), (" x", b" ")),
        *(("1", b"\x01"), ("-2", b"\xfe"), ("128", b"1"), ("", b"\x01"), ("\u6f22", b"\x22")),
    ],
)
def test_separators(hive: Hive, separator: str, byte: bytes) -> None:
    lines = [
        b"7#8#9",
        b"#",
        b"##",
        b"a#b#c#d",
        b"",
        b"12,|\t;\\^$.b#x",
        "\xe9#\u6f22".encode(),
        b"\xfe#\xe9",
    ]
    data = b"\n".join(lines).replace(b"#", byte)
    rows = hive.same("a string, b string, c int", data, {"field.delim": separator})
    assert rows[0] == ("37", "38", 9)


def test_the_format_separates_where_no_delimiter_is_named(hive: Hive) -> None:
    hive.same("a string, b string", b"1,2|3", {"serialization.format": ","})


@pytest.mark.parametrize(("escape", "byte"), [("\\", b"\\"), ("^", b"^"), ("e", b"e"), ("", b"\\")])
def test_escapes(hive: Hive, escape: str, byte: bytes) -> None:
    lines = rb"""
a#,b,c|a##,b|a###,b,c|#N,x|##N,x|a#nb,#r|end#|x,end#|#,|#1,#2|1#2,3|#|##|,#|a##nb
"""
    data = lines.strip().replace(b"|", b"\n").replace(b"#", byte)
    properties = {"field.delim": ",", "escape.delim": escape}
    hive.same("a string, b char(3)", data, properties)


def test_escapes_count_where_a_type_has_none(hive: Hive) -> None:
    data = rb"2020-01-0\1,YW\Jj,\1" + b"\n" + rb"2020-01-01,YWJj,1\,2"
    hive.same("a date, b binary, c int", data, {"field.delim": ",", "escape.delim": "\\"})


@pytest.mark.parametrize("null", ["", "null", "\xe9", "\\\\N", "0"])
def test_spellings_of_null(hive: Hive, null: str) -> None:
    lines = "#,#,#,#,#|a,1,a;#;b,a:#;#:b;c,#;#|,,,,|0,0,0,0,0|\\N,\\N,\\N,\\N,\\N|#"
    columns = "a string, b int, c array<string>, d map<string,string>, e struct<x:string,y:string>"
    properties = {"field.delim": ",", "colelction.delim": ";", "mapkey.delim": ":"}
    hive.same(
        columns,
        lines.replace("|", "\n").replace("#", null).encode(),
        {**properties, "serialization.null.format": null},
    )


@pytest.mark.parametrize("value", ["TRUE", "false"])
def test_last_column_takes_rest(hive: Hive, value: str) -> None:
    hive.same(
        "a string, b string, c struct<x:string,y:string>",
        b"a,b,c\na\na,b\na,b,c,d\n\n,,,,\na,b,1;2;3;4,x",
        {
            "field.delim": ",",
            "colelction.delim": ";",
            "serialization.last.column.takes.rest": value,
        },
    )


NESTED_LINES = (
    rb"1;2;x,a:1;b:2;a:3;c;:4;d:x;\N:3,1;y;p:q:r,a:b;c;:d,1:p|q!r;2;x:p;1:z,"
    rb"abcde;abc:d:efg,2020-01-01:YWJj;2020-1-1:zz;x:y,end",
    b",,,,,,,",
    rb"\N,\N,\N,\N,\N,\N,\N,\N",
    b";,;,;,;,;,;,;,;",
    b":,:,:,:,:,:,:,:",
    b"1",
    rb"1;;\N,a;;b:,;\N,:;\N,;:,\N:\N;\N:1,;,e",
    b"1,a:1:2;b::3,5;z;;,a,1:p|q!r#s,x,y",
)


@pytest.mark.parametrize("escape", [{}, {"escape.delim": "\\"}])
def test_nested_types(hive: Hive, escape: dict[str, str]) -> None:
    properties = {"field.delim": ",", "colelction.delim": ";", "mapkey.delim": ":", **escape}
    levels = bytes.maketrans(b"|!#", b"\x04\x05\x06")
    hive.same(NESTED, b"\n".join(NESTED_LINES).translate(levels), properties)


def test_levels_of_nesting(hive: Hive) -> None:
    deep = "string"
    for _ in range(7):
        deep = f"array<{deep}>"
    data = b"a\x02b\x03c\x04d\x05e\x06f\x07g\x08h"
    hive.same(f"a {deep}", data)
    extended = {"hive.serialization.extend.nesting.levels": "true"}
    hive.same(f"a array<{deep}>", data + b"\x0bi", extended)
    with pytest.raises(ValueError, match="nested"):
        read(hive, f"a array<{deep}>", {})


PIECES = words(
    r", ; : \ \N n a 1 - . e5 \u00e9 2020-01-0 true NaN YWJj = 0 00:00:0 99999999999999999"
)
FIELDS = st.lists(
    st.sampled_from([*(piece.encode() for piece in PIECES), b" ", b"\t", b"\x04", b"\xff"]),
    max_size=12,
).map(b"".join)


@settings(max_examples=3, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize(
    ("columns", "properties"),
    [
        ("a string, b int, c double, d decimal(12,3), e timestamp, f date, g char(4)", {}),
        ("a bigint, b binary, c boolean, d varchar(3), e string", {"escape.delim": "\\"}),
        (
            "a array<int>, b map<string,array<string>>, c struct<x:date,y:float>",
            {"escape.delim": "\\"},
        ),
        ("a map<decimal(5,1),string>, b array<struct<x:string,y:binary>>, c string", {}),
    ],
)
@given(lines=st.lists(FIELDS, min_size=300, max_size=300))
def test_any_line(hive: Hive, columns: str, properties: dict[str, str], lines: list[bytes]) -> None:
    separators = {"field.delim": ",", "colelction.delim": ";", "mapkey.delim": ":"}
    hive.same(columns, b"\n".join(lines), {**separators, **properties})


def test_zone_is_that_of_the_jvm(hive: Hive) -> None:
    assert jvm_time_zone(hive.spark) == JVM_ZONE


def read(hive: Hive, columns: str, properties: dict[str, str], zone: str | None = None) -> None:
    schema = struct_of(columns)
    assert isinstance(schema, StructType)
    hive_text_columns(F.col("value"), schema, properties, time_zone=zone)


@pytest.mark.parametrize(
    ("columns", "properties", "message"),
    [
        ("a string", {"serialization.encoding": "ISO-8859-1"}, "encoding"),
        ("a string", {"textinputformat.record.delimiter": ";"}, "record delimiter"),
        ("a string", {"field.delim": ",", "escape.delim": ","}, "separator and the escape"),
        ("a map<double,int>", {}, "keys of type double"),
        ("a map<array<int>,int>", {}, "keys of type array"),
        ("a timestamp_ntz", {}, "timestamp_ntz"),
        ("a timestamp", {}, "time zone"),
    ],
)
def test_refusals(hive: Hive, columns: str, properties: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(hive, columns, properties)


def test_timestamps_in_formats_of_their_own_are_refused(hive: Hive) -> None:
    properties = {"timestamp.formats": "yyyy-MM-dd'T'HH:mm:ss"}
    read(hive, "a date", properties)
    with pytest.raises(ValueError, match=r"timestamp\.formats"):
        read(hive, "a timestamp", properties, JVM_ZONE)
