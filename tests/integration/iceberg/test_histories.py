"""Iceberg tables keep the right rows after random appends, deletes and schema changes.

A model in memory computes the expected rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

import splitlib
from splitlib.filtering.data import DynamicFilteringData
from tests.integration.iceberg.lake import (
    append_rows,
    delete_equal,
    delete_positions,
    full_name,
    rows_of,
    with_id,
)
from tests.support.abilities import widens

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

SERIAL, A, B = 1, 2, 3
TRANSFORMS: dict[int, list[Any]] = {
    A: [IdentityTransform(), BucketTransform(3), TruncateTransform(2)],
    B: [IdentityTransform(), BucketTransform(2), TruncateTransform(1)],
}
VALUES = {
    A: st.none() | st.integers(-3, 3),
    B: st.none() | st.sampled_from(["", "a", "ab", "é", "B"]),
}
ARROW = {A: pa.int32(), B: pa.string()}


@dataclass
class Row:
    """A row that the table must contain: values by field id, its file and its position."""

    values: dict[int, Any]
    path: str
    position: int
    place: tuple[int, tuple[Any, ...]]
    """Id of the file's partition spec, and the file's partition values."""


@dataclass
class History:
    """A table, and the rows that it must contain after all changes so far."""

    table: Table
    rows: list[Row] = field(default_factory=list)
    serials: Any = field(default_factory=count)
    renames: Any = field(default_factory=count)

    @property
    def ids(self) -> list[int]:
        return [f.field_id for f in self.table.schema().fields]

    def name(self, identifier: int) -> str:
        return str(self.table.schema().find_column_name(identifier))

    def append(self, values: list[tuple[Any, Any]]) -> None:
        added = []
        for of_row in values:
            by_id = {SERIAL: next(self.serials), **dict(zip((A, B), of_row, strict=True))}
            added.append({self.name(i): by_id.get(i) for i in self.ids})
        for file in append_rows(self.table, added):
            content = pq.read_table(file.file_path.removeprefix("file://")).to_pylist()
            place = (file.spec_id, tuple(file.partition[i] for i in range(len(file.partition))))
            for position, row in enumerate(content):
                by_id = dict(zip(self.ids, row.values(), strict=True))
                self.rows.append(Row(by_id, file.file_path, position, place))

    def delete_equal(self, identifier: int, values: list[Any], everywhere: bool) -> None:
        """Commit an equality delete for all partitions, or only for the first row's partition."""
        place = (0, ()) if everywhere or not self.rows else self.rows[0].place
        column = with_id("then", ARROW[identifier], identifier)
        rows = pa.Table.from_arrays([pa.array(values, column.type)], schema=pa.schema([column]))
        delete_equal(self.table, rows, [identifier], place[1], place[0])
        self.rows = [
            row
            for row in self.rows
            if (place[0] != 0 and row.place != place) or row.values.get(identifier) not in values
        ]

    def delete_some(self, keep: int) -> None:
        """Delete rows of the first file by position, except every ``keep``-th row."""
        if not self.rows:
            return
        first = self.rows[0]
        gone = [
            row for i, row in enumerate(r for r in self.rows if r.path == first.path) if i % keep
        ]
        if gone:
            positions = {first.path: [row.position for row in gone]}
            delete_positions(self.table, positions, first.place[1], first.place[0])
            self.rows = [row for row in self.rows if row not in gone]


ROWS = st.lists(st.tuples(VALUES[A], VALUES[B]), min_size=1, max_size=8)
STEPS = st.one_of(
    st.tuples(st.just("append"), ROWS),
    st.tuples(st.just("equal"), st.sampled_from([A, B]), st.data(), st.booleans()),
    st.tuples(st.just("some"), st.integers(2, 3)),
    st.tuples(st.just("rename"), st.sampled_from([A, B])),
    st.tuples(st.just("swap")),
    st.tuples(st.just("promote")),
    st.tuples(st.just("partition"), st.sampled_from([A, B]), st.integers(0, 2)),
    st.tuples(st.just("readd")),
)


def take(history: History, step: tuple[Any, ...]) -> None:
    table = history.table
    match step:
        case "append", rows:
            history.append(rows)
        case "equal", identifier, data, everywhere:
            drawn = data.draw(st.lists(VALUES[identifier], min_size=1, max_size=3))
            history.delete_equal(identifier, drawn, everywhere)
        case "some", keep:
            history.delete_some(keep)
        case "rename", identifier:
            with table.update_schema() as update:
                update.rename_column(history.name(identifier), f"r{next(history.renames)}")
        case ("swap",):
            one, other = history.name(A), history.name(B)
            for old, new in ((one, "tmp"), (other, one), ("tmp", other)):
                with table.update_schema() as update:
                    update.rename_column(old, new)
        case ("promote",):
            with table.update_schema() as update:
                update.update_column(history.name(A), LongType())
        case "partition", identifier, which:
            with table.update_spec() as change:
                for part in table.spec().fields:
                    if not isinstance(part.transform, VoidTransform):
                        change.remove_field(part.name)
            with table.update_spec() as change:
                transform = TRANSFORMS[identifier][which]
                change.add_field(history.name(identifier), transform, f"p{next(history.renames)}")
        case ("readd",):
            extra = [f.name for f in table.schema().fields if f.field_id > B]
            with table.update_schema() as update:
                for name in extra:
                    update.delete_column(name)
            with table.update_schema() as update:
                update.add_column("extra", IntegerType())


@settings(
    max_examples=10,
    deadline=None,
    # Shrinking is left out. Every attempt runs Spark jobs, so it would take minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(STEPS, max_size=8),
    by=st.sampled_from([A, B]),
    data=st.data(),
    how=st.sampled_from(["auto", "paths"]),
    null_safe=st.booleans(),
)
def test_any_history(spark, lake, steps, by, data, how, null_safe) -> None:
    fields = [
        NestedField(SERIAL, "serial", LongType()),
        NestedField(A, "a", IntegerType(), required=False),
        NestedField(B, "b", StringType(), required=False),
    ]
    history = History(lake.create(Schema(*fields)))
    for step in [("append", data.draw(ROWS)), *steps]:
        if step != ("promote",) or widens(spark):
            take(history, step)
    reader = splitlib.read(spark).table(
        full_name(history.table), connector="iceberg", **lake.options
    )
    reader = reader.config(spark_scan=how)
    expected = [tuple(row.values.get(i) for i in history.ids) for row in history.rows]
    assert rows_of(reader.load()) == sorted(expected, key=repr)
    # The pruned scan may also return rows that do not match, so the test joins it with the keys.
    keys = data.draw(st.lists(VALUES[by], max_size=2))
    name = history.name(by)
    filtering = DynamicFilteringData.from_arrow(pa.table({name: pa.array(keys, ARROW[by])}))
    pruned = reader.filtered_by(filtering, null_safe=null_safe).load()
    dimension = spark.createDataFrame(
        [(key,) for key in set(keys)], f"k {'int' if by == A else 'string'}"
    )
    same = pruned[name].eqNullSafe(dimension.k) if null_safe else pruned[name] == dimension.k
    wanted = [
        row
        for row in expected
        if (value := row[history.ids.index(by)]) in keys and (null_safe or value is not None)
    ]
    assert rows_of(pruned.join(dimension, same, "left_semi")) == sorted(wanted, key=repr)
