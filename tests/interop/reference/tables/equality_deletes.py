"""Tables with rows deleted by value. Flink writes such deletes, but Spark's SQL does not."""

from __future__ import annotations

from tests.interop.reference.lake import Lake
from tests.interop.reference.recipe import recipe
from tests.interop.reference.upserts import upsert


@recipe("id", formats=(2, 3))
def deleted_by_value(lake: Lake) -> None:
    lake.create("id BIGINT, s STRING")
    lake.insert("SELECT id, concat('v', id) FROM range(20)", "(3, 'twice'), (100, 'x')")
    upsert(lake, delete="(3), (7), (999)", on=["id"])
    # The delete does not apply to these rows, because they are newer.
    lake.insert("(7, 'again'), (8, 'also 8')")
    upsert(lake, delete="(8)", on=["id"], insert="(8, 'upserted')")
    upsert(lake, delete="(7), (8)", on=["id"], insert="(8, '8 at last')")


@recipe("a", ("a", "b"))
def deleted_by_values_with_nulls(lake: Lake) -> None:
    """A null in a delete file deletes rows with a null in the same column."""
    lake.create("a INT, b STRING, c DOUBLE")
    lake.insert("(1, 'x', 1.5), (1, NULL, 2.5), (NULL, 'x', 3.5), (NULL, NULL, NULL), (2, 'x', 0)")
    lake.insert("(NULL, NULL, 9), (1, NULL, 8), (3, 'y', 7), (NULL, 'y', NULL)")
    upsert(lake, delete="(NULL, NULL), (1, NULL)", on=["a", "b"])
    lake.insert("(NULL, NULL, 100), (1, NULL, 101)")
    upsert(lake, delete="('y')", on=["b"])
    upsert(lake, delete="(NULL)", on=["c"])


@recipe("p", "id", formats=(2, 3))
def deleted_by_value_in_a_partition(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", "p")
    lake.insert("SELECT id % 10, CAST(id % 3 AS INT), concat('v', id) FROM range(60)")
    lake.insert("(4, NULL, 'n'), (5, NULL, 'n')")
    upsert(lake, delete="(4)", on=["id"], partition=[1])
    upsert(lake, delete="(5)", on=["id"], partition=[None])
    lake.insert("(4, 1, 'again')")
    upsert(lake, delete="(6, 'v6')", on=["id", "s"], partition=[0])


@recipe("p", "id", formats=(2, 3))
def deleted_by_value_everywhere(lake: Lake) -> None:
    """A delete file of the unpartitioned spec applies to every partition of every spec."""
    lake.create("id BIGINT, p INT, s STRING")
    lake.insert("SELECT id % 10, CAST(id % 3 AS INT), 'unpartitioned' FROM range(30)")
    lake.alter("ADD PARTITION FIELD p")
    lake.insert("SELECT id % 10, CAST(id % 3 AS INT), 'partitioned' FROM range(30)")
    upsert(lake, delete="(4), (5)", on=["id"], spec_id=0)
    upsert(lake, delete="(6)", on=["id"], spec_id=1, partition=[1])
    lake.insert("(4, 1, 'again')")
    upsert(lake, delete="(2, 1)", on=["p", "id"], spec_id=0)


@recipe("p", "id", formats=(2, 3))
def deleted_by_value_and_position(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", "p")
    lake.insert("SELECT id, CAST(id % 3 AS INT), concat('v', id) FROM range(30)")
    lake.sql("DELETE FROM {t} WHERE id % 7 = 0")
    for p in range(3):
        upsert(
            lake,
            delete=f"({p}), ({p + 9})",
            on=["id"],
            insert=f"({p}, {p}, 'upserted'), ({50 + p}, {p}, 'new')",
            partition=[p],
        )
    lake.sql("DELETE FROM {t} WHERE id IN (0, 10, 51)")
    lake.insert("(10, 1, 'again')")


@recipe("k")
def deleted_by_value_of_many_types(lake: Lake) -> None:
    columns = {
        "d": ("DATE", "DATE'2020-01-{i:02}'", 1),
        "ts": ("TIMESTAMP", "TIMESTAMP'2020-01-{i:02} 01:02:03.456789Z'", 2),
        "ntz": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ'1969-12-{i:02} 01:02:03.000001'", 3),
        "dec": ("DECIMAL(12, 2)", "{i}.50", 4),
        "b": ("BINARY", "X'00{i:02}FF'", 5),
        "f": ("DOUBLE", "IF({i} = 6, DOUBLE('NaN'), {i} / 2)", 6),
        "bool": ("BOOLEAN", "{i} = 7", 7),
        "s": ("STRING", "'é{i}'", 8),
        "x": ("FLOAT", "FLOAT({i} / 10)", 9),
        "n": ("BIGINT", "{i} - 5", 10),
    }
    lake.create("k INT, " + ", ".join(f"{name} {kind}" for name, (kind, _, _) in columns.items()))
    for i in range(1, 12):
        lake.insert(f"({i}, " + ", ".join(v.format(i=i) for _, v, _ in columns.values()) + ")")
    for name, (_, value, deleted) in columns.items():
        upsert(lake, delete=f"({value.format(i=deleted)})", on=[name])


@recipe("n", "key")
def deleted_by_value_then_evolved(lake: Lake) -> None:
    """The equality columns are renamed, widened and dropped after the deletes were written."""
    lake.create("id INT, n INT, gone STRING, s STRING")
    lake.insert("SELECT CAST(id AS INT), CAST(id % 5 AS INT), concat('g', id), 'x' FROM range(20)")
    upsert(lake, delete="(3)", on=["id"])
    upsert(lake, delete="(4)", on=["n"])
    upsert(lake, delete="('g7')", on=["gone"])
    lake.alter("RENAME COLUMN id TO key", "ALTER COLUMN n TYPE BIGINT", "DROP COLUMN gone")
    lake.insert("(3, 4, 'x'), (30, 5000000000, 'x')")


@recipe("id")
def deleted_by_value_of_an_added_column(lake: Lake) -> None:
    """The deleted column is null in files that are older than the column."""
    lake.create("id INT")
    lake.insert("(1), (2)")
    lake.alter("ADD COLUMN s STRING")
    lake.insert("(3, NULL), (4, 'x')")
    upsert(lake, delete="(NULL)", on=["s"])
    lake.insert("(5, NULL)")
