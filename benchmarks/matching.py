"""Compare matching partitions against keys with Arrow's own kernels.

There are as many keys as partitions. With one key column, splitlib is compared with ``is_in``. With
two key columns it is compared with a semi join, since Arrow's ``is_in`` does not support them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import splitlib
from benchmarks.measure import Contender, Sample, in_turns, timed
from benchmarks.results import Comparison, Result, within
from benchmarks.sizes import Sizes
from splitlib.filtering.predicate import Predicate

_TYPED = "splitlib, typed values"
_TEXT = "splitlib, text, as a metastore has it"
_COMPILE = "splitlib, preparing the keys, once per filter"
_IS_IN = "Arrow's is_in, typed values"
_SEMI_JOIN = "Arrow's semi join, typed values"


def run(sizes: Sizes, directory: Path) -> Result:
    del directory
    numbers, wanted = _numbers(sizes.matched)
    kinds = {
        "int": (numbers, wanted),
        "string": (numbers.cast(pa.string()), wanted.cast(pa.string())),
        "date": (numbers.cast(pa.date32()), wanted.cast(pa.date32())),
    }
    comparisons, targets = [], []
    for kind, (values, keys) in kinds.items():
        partitions = pa.record_batch({"k": values})
        comparison = _compare(kind, partitions, pa.table({"k": keys}), sizes)
        comparisons.append(comparison)
        target = within(f"{kind}: {_TYPED} / {_IS_IN}", comparison[_TYPED], comparison[_IS_IN], 2.0)
        targets.append(target)
    pairs = pa.record_batch({"a": numbers, "b": kinds["string"][0]})
    wanted_pairs = pa.table({"a": wanted, "b": kinds["string"][1]})
    comparisons.append(_compare("(int, string)", pairs, wanted_pairs, sizes))
    return Result("matching", comparisons, targets)


def _numbers(count: int) -> tuple[pa.Array, pa.Array]:
    """Return shuffled partition values, and shuffled keys. Half of the keys have a partition."""
    shuffled = random.Random(0).sample(range(count), count)
    keys = [2 * n + n % 2 for n in random.Random(1).sample(range(count), count)]
    return pa.array([2 * n for n in shuffled], pa.int32()), pa.array(keys, pa.int32())


def _compare(kind: str, partitions: pa.RecordBatch, keys: pa.Table, sizes: Sizes) -> Comparison:
    text = pa.record_batch(
        [column.cast(pa.string()) for column in partitions.columns], names=keys.column_names
    )
    data = splitlib.DynamicFilteringData.from_arrow(keys)
    predicate = Predicate(partitions.schema, [data])
    if keys.num_columns == 1:
        value_set = keys.column(0).combine_chunks()
        reference = _IS_IN

        def peer() -> int:
            return _count(pc.is_in(partitions.column(0), value_set=value_set))
    else:
        reference = _SEMI_JOIN

        def peer() -> int:
            return _rows(pa.table(partitions).join(keys, keys.column_names, join_type="left semi"))

    def match(values: pa.RecordBatch) -> Callable[[], int]:
        return lambda: _count(predicate.match(values))

    expected = -(-partitions.num_rows // 2)
    contenders = [
        Contender(reference, _checked(peer, expected)),
        Contender(_TYPED, _checked(match(partitions), expected)),
        Contender(_TEXT, _checked(match(text), expected)),
        Contender(_COMPILE, lambda: timed(lambda: Predicate(partitions.schema, [data]))),
    ]
    title = f"{kind}, {partitions.num_rows:,} partitions, {keys.num_rows:,} keys"
    in_turns(f"{title}, warming up", contenders, sizes.warm_up)
    return Comparison(title, "seconds", reference, in_turns(title, contenders, sizes.repeat))


def _checked(match: Callable[[], int], expected: int) -> Callable[[], Sample]:
    def run() -> Sample:
        matches: list[int] = []
        sample = timed(lambda: matches.append(match()))
        if matches != [expected]:
            raise RuntimeError(f"{matches[0]} matches, {expected} expected")
        return sample._replace(counts={"matches": expected})

    return run


def _count(mask: pa.BooleanArray) -> int:
    return int(pc.sum(mask).as_py())


def _rows(table: pa.Table) -> int:
    return int(table.num_rows)
