"""What a test says when the connector does something else: what it did, and what is expected."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from splitlib import FileSplit, SplitlibError
from splitlib_conformance.harness import WrittenFile

FrozenValues = tuple[tuple[str, Any], ...]
"""Partition values in a form that can be a member of a set."""

_SHOWN = 3


def expect(holds: object, did: str, expected: str) -> None:
    """Fail unless ``holds``.

    Args:
        holds: Whether the connector did what is expected.
        did: What it did, as in "the connector ...".
        expected: What it should have done.
    """
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(f"The connector {did}.\nExpected: {expected}.")


def frozen(values: Mapping[str, Any]) -> FrozenValues:
    """Partition values to compare and to hash; every NaN is the same."""
    return tuple((key, "NaN" if is_nan(value) else value) for key, value in values.items())


def is_nan(value: Any) -> bool:
    """Whether it is a NaN, and not a value of another type."""
    return isinstance(value, float) and math.isnan(value)


def expect_partitions(
    found: Iterable[FrozenValues], expected: Iterable[Mapping[str, Any]], by: str
) -> None:
    """Fail unless the partitions found are those expected, each once, in any order.

    Args:
        found: Their values.
        expected: As the harness has written them.
        by: What has given them.
    """
    __tracebackhide__ = True
    there = Counter(found)
    right = Counter(frozen(values) for values in expected)
    expect(
        there == right,
        f"gave by {by} {there.total()} partitions: {_differences(there, right)}",
        f"the {right.total()} partitions that the harness wrote, each once",
    )


def expect_files(
    splits: Iterable[FileSplit], expected: Iterable[WrittenFile], when: str = "without a filter"
) -> None:
    """Fail unless the splits are of the files expected, each once, with their partition's values.

    Args:
        splits: Each a whole file.
        expected: As the harness has written them.
        when: Under which circumstances the table was read.
    """
    __tracebackhide__ = True
    there = Counter((split.path, frozen(split.partition_values)) for split in splits)
    right = Counter((file.path, frozen(file.values)) for file in expected)
    expect(
        there == right,
        f"gave {there.total()} files {when}: {_differences(there, right)}",
        f"the {right.total()} files that the harness wrote, each once, with the values of its "
        "partition",
    )


def _differences(found: Counter[Any], expected: Counter[Any]) -> str:
    kinds = {"missing": expected - found, "too many": found - expected}
    return "; ".join(
        f"{some.total()} {how}, such as {', '.join(map(str, list(some)[:_SHOWN]))}"
        for how, some in kinds.items()
        if some
    )


@contextmanager
def expect_error(kind: type[SplitlibError], when: str) -> Iterator[list[SplitlibError]]:
    """Fail unless the block raises ``kind``; the error is put into the list given."""
    __tracebackhide__ = True
    caught: list[SplitlibError] = []
    raised: BaseException | None = None
    try:
        yield caught
    except kind as error:
        caught.append(error)
    except Exception as error:
        raised = error
    if not caught:
        did = f"raised {type(raised).__name__} ({raised})" if raised else "raised nothing"
        message = f"The connector {did} {when}.\nExpected: {kind.__name__}."
        raise AssertionError(message) from raised
