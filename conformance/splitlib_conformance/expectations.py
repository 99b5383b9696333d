"""The kit's assertions. Their messages describe the connector's and the expected behavior."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from splitlib import FileSplit, SplitlibError
from splitlib_conformance.harness import WrittenFile

FrozenValues = tuple[tuple[str, Any], ...]
"""Partition values in a hashable form."""

_SHOWN = 3


def expect(holds: object, did: str, expected: str) -> None:
    """Fail the test unless a condition holds.

    Args:
        holds: The condition.
        did: The connector's wrong behavior. The message begins with "The connector" and this text.
        expected: The correct behavior.
    """
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(f"The connector {did}.\nExpected: {expected}.")


def frozen(values: Mapping[str, Any]) -> FrozenValues:
    """Return partition values in a hashable form. NaN becomes text, so that NaN equals NaN."""
    return tuple((key, "NaN" if is_nan(value) else value) for key, value in values.items())


def is_nan(value: Any) -> bool:
    """Return whether a value is a NaN."""
    return isinstance(value, float) and math.isnan(value)


def expect_partitions(
    found: Iterable[FrozenValues], expected: Iterable[Mapping[str, Any]], by: str
) -> None:
    """Fail unless the expected partitions were found, each once, in any order.

    Args:
        found: Values of the partitions that the connector returned.
        expected: Values of the partitions that the harness wrote.
        by: Name of the method that returned the partitions.
    """
    __tracebackhide__ = True
    there = Counter(found)
    right = Counter(frozen(values) for values in expected)
    expect(
        there == right,
        f"returned {there.total()} partitions from {by}: {_differences(there, right)}",
        f"the {right.total()} partitions that the harness wrote, each once",
    )


def expect_files(
    splits: Iterable[FileSplit], expected: Iterable[WrittenFile], when: str = "without a filter"
) -> None:
    """Fail unless there is one split for each expected file, with the values of its partition.

    Args:
        splits: The splits to check. Each file is so small that it is one split.
        expected: Files that the harness wrote.
        when: Circumstances of the test for the message, such as "without a filter".
    """
    __tracebackhide__ = True
    there = Counter((split.path, frozen(split.partition_values)) for split in splits)
    right = Counter((file.path, frozen(file.values)) for file in expected)
    expect(
        there == right,
        f"returned {there.total()} files {when}: {_differences(there, right)}",
        f"the {right.total()} files that the harness wrote, each once, with the values of their "
        "partitions",
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
    """Fail unless the ``with`` block raises an error of a class.

    Args:
        kind: Class of the error.
        when: Circumstances of the test, for the message.

    Yields:
        A list that is empty at first, and contains the error after the block.
    """
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
