"""Tables with changed schemas. Iceberg identifies a column by its id, not by name or position."""

from __future__ import annotations

from typing import Any

from tests.interop.reference.lake import Lake
from tests.interop.reference.recipe import recipe


@recipe("a", "b", "id", formats=(3,))
def swapped_names(lake: Lake) -> None:
    lake.create("id BIGINT, a INT, b INT")
    lake.insert("(1, 10, 20), (2, 11, 21), (3, NULL, 22)")
    lake.alter("RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b")
    lake.insert("(4, 20, 10), (5, 21, NULL), (6, 99, 98)")
    lake.sql("DELETE FROM {t} WHERE id IN (2, 6)")


@recipe("a", "p", formats=(1, 2))
def dropped_and_added_again(lake: Lake) -> None:
    lake.create("id BIGINT, a INT, p STRING", "p")
    lake.insert("(1, 10, 'x'), (2, 11, 'y')")
    lake.alter("DROP COLUMN a")
    lake.insert("(3, 'x')")
    lake.alter("ADD COLUMN a STRING")
    lake.insert("(4, 'y', '10'), (5, 'x', NULL)")
    lake.alter("DROP COLUMN a", "ADD COLUMN a INT FIRST")
    lake.insert("(10, 6, 'y')")


@recipe("c", "a")
def reordered(lake: Lake) -> None:
    lake.create("a INT, b STRING, c INT", "a")
    lake.insert("(1, 'x', 10), (2, 'y', 20)")
    lake.alter("ALTER COLUMN c FIRST", "ALTER COLUMN a AFTER b", "ADD COLUMN z INT AFTER c")
    lake.insert("(30, 5, 'z', 1), (40, NULL, NULL, 3)")


@recipe("i", "f", "d", formats=(1, 2, 3))
def widened(lake: Lake) -> None:
    lake.create("id BIGINT, i INT, f FLOAT, d DECIMAL(5, 2), s STRUCT<i: INT>, l ARRAY<INT>")
    lake.insert("(1, 7, 1.5, 1.25, named_struct('i', 3), array(1, NULL))")
    lake.insert("(2, -7, FLOAT('NaN'), -1.25, NULL, NULL), (3, NULL, NULL, NULL, NULL, array())")
    lake.alter(
        "ALTER COLUMN i TYPE BIGINT",
        "ALTER COLUMN f TYPE DOUBLE",
        "ALTER COLUMN d TYPE DECIMAL(30, 2)",
        "ALTER COLUMN s.i TYPE BIGINT",
        "ALTER COLUMN l.element TYPE BIGINT",
    )
    lake.insert(
        """(4, 5000000000, 0.1, 1234567890123456789012345678.25, named_struct('i', 5000000000),
            array(5000000000))""",
        "(5, 7, 1.5, 1.25, named_struct('i', 3), array(1))",
    )


@recipe("id")
def nested_changes(lake: Lake) -> None:
    lake.create(
        """id BIGINT, s STRUCT<a: INT, b: STRUCT<c: STRING, d: INT>>,
           l ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, STRUCT<v: INT, w: INT>>"""
    )
    lake.insert(
        """(1, named_struct('a', 1, 'b', named_struct('c', 'c1', 'd', 11)),
            array(named_struct('x', 1, 'y', 'y1'), NULL),
            map('k', named_struct('v', 1, 'w', 2)))""",
        "(2, NULL, NULL, NULL), (3, named_struct('a', 3, 'b', NULL), array(), map())",
    )
    lake.alter(
        "RENAME COLUMN s.a TO renamed",
        "ADD COLUMN s.a STRING",
        "DROP COLUMN s.b.d",
        "ADD COLUMN s.b.e INT FIRST",
        "RENAME COLUMN l.element.x TO z",
        "ADD COLUMN l.element.x DOUBLE",
        "RENAME COLUMN m.value.v TO u",
        "RENAME COLUMN m.value.w TO v",
        "ADD COLUMN added STRUCT<p: INT>",
    )
    lake.insert(
        """(4, named_struct('renamed', 4, 'b', named_struct('e', 5, 'c', 'c4'), 'a', 'new a'),
            array(named_struct('z', 4, 'y', 'y4', 'x', 0.5D)),
            map('k', named_struct('u', 4, 'v', 5)), named_struct('p', 6))"""
    )
    lake.sql("DELETE FROM {t} WHERE id = 3")


@recipe("id")
def a_struct_whose_fields_were_all_replaced(lake: Lake) -> None:
    """Older files have none of the struct's current fields, so they do not show if it is null."""
    lake.create("id BIGINT, s STRUCT<a: INT>")
    lake.insert("(1, named_struct('a', 1)), (2, NULL)")
    lake.alter("ADD COLUMN s.b INT", "DROP COLUMN s.a")
    lake.insert("(3, named_struct('b', 3)), (4, NULL), (5, named_struct('b', NULL))")


@recipe("id")
def many_nested_types(lake: Lake) -> None:
    lake.create(
        """id BIGINT, l ARRAY<ARRAY<INT>>, m MAP<INT, ARRAY<STRING>>, e MAP<STRUCT<a: INT>, DATE>,
           s STRUCT<t: TIMESTAMP, n: TIMESTAMP_NTZ, b: BINARY, d: DECIMAL(20, 3), z: BOOLEAN>"""
    )
    lake.insert(
        """(1, array(array(1, 2), array(), NULL), map(1, array('x', NULL), 2, NULL),
            map(named_struct('a', 1), DATE'2020-01-01'),
            named_struct('t', TIMESTAMP'2020-01-01 00:00:00Z',
                         'n', TIMESTAMP_NTZ'1900-01-01 00:00:00',
                         'b', X'00FF', 'd', 1.5, 'z', true))""",
        "(2, NULL, NULL, NULL, NULL)",
    )


@recipe("id", "u")
def required_columns(lake: Lake) -> None:
    lake.create("id BIGINT NOT NULL, u STRING NOT NULL, s STRUCT<a: INT NOT NULL>", "u")
    lake.insert("(1, 'a', named_struct('a', 1)), (2, 'b', NULL)")
    lake.alter("ALTER COLUMN id DROP NOT NULL")
    lake.insert("(NULL, 'b', NULL)")


@recipe("id")
def uuid_and_fixed(lake: Lake) -> None:
    """Spark has no type for UUID or FIXED."""
    lake.create("id BIGINT")
    lake.insert("(0)")
    types = lake.java.org.apache.iceberg.types.Types
    schema = lake.load().updateSchema()
    schema.addColumn("u", types.UUIDType.get())
    schema.addColumn("f", types.FixedType.ofLength(3))
    schema.commit()
    lake.insert("(1, 'f79c3e09-677c-4bbd-a479-3f349cb785e7', X'010203')", "(2, NULL, NULL)")


_DEFAULTS: dict[str, tuple[str, Any]] = {
    "i": ("int", 42),
    "l": ("long", 5_000_000_000),
    "b": ("boolean", True),
    "f": ("float", 1.5),
    "o": ("double", 0.1),
    "dec": ("decimal(9, 2)", "1.25"),
    "s": ("string", "it's é"),
    "bin": ("binary", b"\x00\xff"),
    "d": ("date", "2020-02-29"),
    "ts": ("timestamptz", "2020-02-29T01:02:03.456789+00:00"),
    "ntz": ("timestamp", "1969-12-31T23:59:59.999999"),
}


@recipe(*_DEFAULTS, formats=(3,))
def defaults(lake: Lake) -> None:
    """An added column has its default value in older files, which have no bounds for it."""
    lake.create("id BIGINT")
    lake.insert("(1), (2)")
    types = lake.java.org.apache.iceberg.types.Types
    change = lake.load().updateSchema()
    for name, (kind, value) in _DEFAULTS.items():
        column = types.fromPrimitiveString(kind)
        change.addColumn(name, column, lake.literal(value).to(column))
    change.commit()
    nothing = ", ".join(["NULL"] * len(_DEFAULTS))
    lake.insert(f"(3, {nothing})")
    lake.insert(
        """(4, 43, 1, false, 2.5, 0.2, 9.99, 'x', X'01', DATE'2021-01-01',
            TIMESTAMP'2021-01-01 00:00:00Z', TIMESTAMP_NTZ'2021-01-01 00:00:00')"""
    )
    lake.sql("DELETE FROM {t} WHERE id = 2")


@recipe("k", "id", formats=(3,))
def a_default_then_a_partition(lake: Lake) -> None:
    """The partition column has a default value in files of the older spec."""
    lake.create("id BIGINT, s STRUCT<a: INT>")
    lake.insert("(1, named_struct('a', 1)), (2, NULL)")
    types = lake.java.org.apache.iceberg.types.Types
    integer = types.fromPrimitiveString("int")
    change = lake.load().updateSchema()
    change.addColumn("k", integer, lake.literal(7).to(integer))
    change.addColumn("s", "b", integer, lake.literal(8).to(integer))
    change.addRequiredColumn("r", integer, lake.literal(9).to(integer))
    change.commit()
    lake.alter("ADD PARTITION FIELD k")
    lake.insert("(3, named_struct('a', 3, 'b', NULL), 7, 1), (4, NULL, NULL, 2), (5, NULL, 6, 9)")
    # The new default applies only to new rows. Older rows keep the first default.
    changed = lake.load().updateSchema()
    changed.updateColumnDefault("k", lake.literal(99).to(integer)).commit()
    lake.insert("(6, NULL, 99, 1)")
