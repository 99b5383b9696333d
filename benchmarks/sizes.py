"""Sizes of the benchmarks: their command line options, defaults and values for ``--quick``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any


def _size(default: int, quick: int, doc: str, minimum: int = 1) -> Any:
    return field(default=default, metadata={"quick": quick, "doc": doc, "minimum": minimum})


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of all benchmarks, set on the command line. ``--quick`` selects small defaults."""

    repeat: int = _size(5, 1, "rounds, in each of which every contender runs once")
    warm_up: int = _size(8, 0, "rounds before those, whose times are dropped", minimum=0)
    partitions: int = _size(10_000, 60, "first_row, many_keys: partitions of the table")
    more_partitions: int = _size(100_000, 120, "first_row: partitions of a larger table")
    files: int = _size(2, 2, "first_row, many_keys, slow_listing: files of each partition")
    matching: int = _size(30, 6, "partitions that the join needs, in every benchmark")
    keys: int = _size(2_000, 1_200, "many_keys: join keys, of which MATCHING have a partition")
    slow_partitions: int = _size(2_000, 40, "slow_listing: partitions of the table")
    delay_milliseconds: int = _size(20, 20, "slow_listing: added to every directory listing")
    enumerated: int = _size(100_000, 2_000, "enumeration: partitions of the table")
    handed_out: int = _size(100_000, 2_000, "coordinator: splits, a hundred to a partition", 100)
    readers: int = _size(64, 4, "coordinator: threads that ask for splits")
    matched: int = _size(1_000_000, 20_000, "matching: partitions, and as many keys")
    named: int = _size(
        1_000_000, 2_000, "many_partitions: partitions of each of three tables", 1000
    )
    listed: int = _size(1_000_000, 20_000, "memory: partition names")
    pinned: int = _size(100_000, 1_000, "pinning: files given to Spark at the most")
    planned: int = _size(2_000, 200, "iceberg: files in one manifest, half of which match", 2)
    in_manifest: int = _size(2_000, 10, "iceberg: files in each of 50 manifests, 2 needed", 3)
    paths: int = _size(1_000, 40, "pinning: files given to spark.read at the most")
    joined: int = _size(30_000_000, 20_000, "runtime_filter: rows of the larger fact table")
    learned: int = _size(100_000, 2_000, "learned: files of the table", 1_000)
    clustered: int = _size(9_600_000, 960_000, "data_keys: rows of the fact table", 96_000)
    rows: int = _size(4_000_000, 20_000, "datasource: rows of the table", 4)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Add an option for each size to a parser."""
        for size in fields(cls):
            doc = f"{size.metadata['doc']} ({size.default}; quick: {size.metadata['quick']})"
            parser.add_argument(
                f"--{size.name.replace('_', '-')}",
                type=_at_least(size.metadata["minimum"]),
                metavar="N",
                help=doc,
            )

    @classmethod
    def of(cls, options: argparse.Namespace) -> Sizes:
        """Return the sizes set by parsed options."""
        asked = {size.name: getattr(options, size.name) for size in fields(cls)}
        quick = {size.name: size.metadata["quick"] for size in fields(cls) if options.quick}
        return cls(**quick | {name: n for name, n in asked.items() if n is not None})


def _at_least(minimum: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < minimum:
            raise argparse.ArgumentTypeError(f"{text} is less than {minimum}")
        return int(text)

    return number
