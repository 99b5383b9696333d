"""Tables with several snapshots, branches and tags."""

from __future__ import annotations

from tests.interop.reference.lake import Lake
from tests.interop.reference.recipe import recipe


@recipe("k", "id", formats=(3,))
def branches_and_tags(lake: Lake) -> None:
    lake.create("id BIGINT, k INT", "k")
    lake.insert("(1, 1), (2, 2)")
    lake.alter("CREATE TAG first", "CREATE BRANCH work")
    lake.insert("(3, 1)")
    lake.sql(
        "INSERT INTO {t}.branch_work VALUES (10, 1), (11, 3)",
        "DELETE FROM {t}.branch_work WHERE id = 1",
    )
    lake.alter("CREATE BRANCH `a.b/c d`", "CREATE TAG `é`")
    lake.insert("(4, 4)")


@recipe("k", "a", "b")
def schema_changed_after_branching(lake: Lake) -> None:
    """Snapshots and tags have the schema that was current when the snapshot was written.

    Branches have the table's current schema.
    """
    lake.create("id BIGINT, a INT, b INT, k INT", "k")
    lake.insert("(1, 10, 20, 1), (2, 11, 21, 2)")
    lake.alter("CREATE TAG before", "CREATE BRANCH other")
    lake.alter(
        "RENAME COLUMN a TO c",
        "RENAME COLUMN b TO a",
        "RENAME COLUMN c TO b",
        "ADD COLUMN d STRING",
        "RENAME COLUMN k TO part",
    )
    lake.insert("(3, 20, 10, 1, 'x')")
    lake.sql("INSERT INTO {t}.branch_other VALUES (4, 21, 11, 2, 'y')")
    lake.alter("DROP COLUMN d", "RENAME COLUMN part TO k")
    lake.insert("(5, 21, 11, 2)")


@recipe("id")
def expired_snapshots(lake: Lake) -> None:
    lake.create("id BIGINT, k INT", "k")
    lake.insert("(1, 1), (2, 2)", "(3, 1)")
    lake.alter("CREATE TAG kept")
    lake.sql("DELETE FROM {t} WHERE id = 1")
    lake.insert("(5, 1)")
    lake.call("expire_snapshots", "older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1")


@recipe("id")
def rolled_back(lake: Lake) -> None:
    """One snapshot is not an ancestor of the current one."""
    lake.create("id BIGINT, k INT", "k")
    lake.insert("(1, 1), (2, 2)", "(3, 1)")
    first = lake.load().history().get(0).snapshotId()
    lake.call("rollback_to_snapshot", f"snapshot_id => {first}")
    lake.insert("(4, 4)")


@recipe("id")
def overwritten(lake: Lake) -> None:
    lake.create("id BIGINT, k INT", "k")
    lake.insert("(1, 1), (2, 2), (3, 3)")
    lake.sql(
        "DELETE FROM {t} WHERE id = 1",
        "INSERT OVERWRITE {t} VALUES (20, 2)",
        "DELETE FROM {t} WHERE k = 3",
    )
    lake.call("rewrite_manifests")
    lake.insert("(30, 3)")


@recipe("id", "k")
def never_written(lake: Lake) -> None:
    lake.create("id BIGINT, k INT", "k")


@recipe("id", "k")
def emptied(lake: Lake) -> None:
    lake.create("id BIGINT, k INT", "k")
    lake.insert("(1, 1), (2, 2), (3, 3)")
    lake.sql("DELETE FROM {t}")
