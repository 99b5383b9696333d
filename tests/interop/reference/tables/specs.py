"""Tables with changed partition specs. Each spec has data files."""

from __future__ import annotations

from tests.interop.reference.lake import Lake
from tests.interop.reference.recipe import recipe

_ROWS = """SELECT id, TIMESTAMP'2020-01-30 12:00:00Z' + make_interval(0, 0, 0, id % 5),
                  concat('s', id % 4) FROM range({first}, {last})"""


def _rows(first: int, last: int) -> str:
    return _ROWS.format(first=first, last=last)


@recipe("ts", "s", "id", ("ts", "s"), formats=(1, 2))
def changed_specs(lake: Lake) -> None:
    lake.create("id BIGINT, ts TIMESTAMP, s STRING")
    lake.insert(_rows(0, 10))
    lake.alter("ADD PARTITION FIELD days(ts)")
    lake.insert(_rows(10, 20))
    lake.alter("REPLACE PARTITION FIELD days(ts) WITH months(ts)", "ADD PARTITION FIELD s AS label")
    lake.insert(_rows(20, 30))
    lake.alter("DROP PARTITION FIELD label", "ADD PARTITION FIELD bucket(3, id) AS shard")
    lake.insert(_rows(30, 40), "(100, NULL, NULL), (101, NULL, 's1')")
    if lake.format_version > 1:
        lake.sql("DELETE FROM {t} WHERE id % 7 = 0")


@recipe("k")
def a_field_dropped_and_added_again(lake: Lake) -> None:
    lake.create("id BIGINT, k INT", "k")
    lake.insert("(1, 1), (2, 2)")
    lake.alter("DROP PARTITION FIELD k")
    lake.insert("(3, 1), (4, 2)")
    lake.alter("ADD PARTITION FIELD bucket(2, k) AS k_bucket")
    lake.insert("(5, 1), (6, 2)")
    lake.alter("DROP PARTITION FIELD k_bucket", "ADD PARTITION FIELD k")
    lake.insert("(7, 1), (8, 2), (9, NULL)")


@recipe("day", "n")
def sources_renamed_and_widened(lake: Lake) -> None:
    lake.create("id BIGINT, d DATE, n INT, m INT, q INT", "d, n, bucket(4, m), truncate(10, q)")
    lake.insert(
        """SELECT id, date_add(DATE'2020-01-01', CAST(id % 3 AS INT)), CAST(id % 2 AS INT),
                  CAST(id AS INT), CAST(id AS INT) FROM range(12)"""
    )
    lake.alter(
        "RENAME COLUMN d TO day",
        *(f"ALTER COLUMN {name} TYPE BIGINT" for name in ("n", "m", "q")),
    )
    lake.insert("(100, DATE'2020-01-02', 5000000000, 5000000001, 5000000002), (101, NULL, 1, 5, 5)")


@recipe("id")
def a_source_dropped(lake: Lake) -> None:
    """Older files are partitioned by a column that no longer exists."""
    lake.create("id BIGINT, k INT, s STRING", "k")
    lake.insert("(1, 1, 'a'), (2, 2, 'b')")
    lake.alter("DROP PARTITION FIELD k", "ADD PARTITION FIELD s")
    lake.insert("(3, 1, 'a'), (4, 2, 'b')")
    lake.alter("DROP COLUMN k", "ADD COLUMN k STRING")
    lake.insert("(5, 'a', 'new k'), (6, 'b', NULL)")
    lake.sql("DELETE FROM {t} WHERE id IN (2, 5)")
