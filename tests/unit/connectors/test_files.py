"""A listing of directories leaves no threads behind if its consumer stops early."""

from __future__ import annotations

from splitlib import DynamicFileEnumerator, load_table
from tests.support.coordinators import assert_no_thread_is_left, own_threads


def test_a_walk_that_nobody_goes_on_with_holds_no_threads(tmp_path):
    for y in range(300):
        (tmp_path / f"y={y}" / "k=1").mkdir(parents=True)
    keys = "y int, k int"
    with load_table(str(tmp_path), "files", schema="c int", partition_schema=keys) as table:
        batches = table.list_partitions(DynamicFileEnumerator(table).predicate)
        assert next(batches).values.num_rows > 0
        assert_no_thread_is_left()
        assert sum(batch.values.num_rows for batch in batches) > 0
    assert own_threads() == []
