"""A star schema: sales, partitioned by day, and a dimension of days."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.metastore_tables import create_table
from benchmarks.sizes import Sizes
from splitlib.testing import HiveMetastore

# Number of days from one partition to the next. Days between two partitions have no partition.
_STEP = 100
_ROWS_PER_FILE = 100


@dataclass(frozen=True, slots=True)
class Star:
    """A fact table and a dimension in the metastore, and the days that queries select."""

    sales: str
    """Name of the fact table: columns ``item``, ``amount`` and the partition key ``day``."""
    dates: str
    """Name of the dimension: columns ``d_day``, ``d_name``, ``few`` and ``many``."""
    partitions: int
    files: int
    few: list[int]
    """Days where ``few = 1``. All have a partition, and they are evenly spaced."""
    many: list[int]
    """Days where ``many = 1``: the days of ``few``, and days without a partition among them."""

    @property
    def files_needed(self) -> int:
        """Number of files that the join must read."""
        return len(self.few) * self.files

    @property
    def rows(self) -> int:
        """Number of rows of the join."""
        return self.files_needed * _ROWS_PER_FILE


def build_stars(
    metastore: HiveMetastore, directory: Path, sizes: Sizes, partitions: int
) -> tuple[Star, Star]:
    """Build two stars: one to measure, and a small one to warm up the JVMs of Spark and Hive.

    Tables of earlier runs are reused. The small star has enough partitions to make Spark list
    them in a job.
    """
    star = _build_star(
        metastore,
        directory,
        partitions=partitions,
        files=sizes.files,
        few=sizes.matching,
        many=sizes.keys,
    )
    return star, _build_star(metastore, directory, partitions=50, files=1, few=5, many=1_100)


def _build_star(
    metastore: HiveMetastore, directory: Path, *, partitions: int, files: int, few: int, many: int
) -> Star:
    days = [_STEP * i for i in range(partitions)]
    chosen = spread(days, few)
    absent = _days_between(days, many - len(chosen))
    star = Star(
        sales=f"sales_{partitions}_{files}",
        dates=f"dates_{partitions}_{few}_{many}",
        partitions=partitions,
        files=files,
        few=chosen,
        many=sorted(chosen + absent),
    )
    _build_sales(metastore, directory / star.sales, star, days)
    _build_dates(metastore, directory / star.dates, star, sorted(days + absent))
    return star


def spread(values: list[int], count: int) -> list[int]:
    """Return ``count`` evenly spaced values, including the first and the last."""
    last = len(values) - 1
    return sorted({values[i * last // max(count - 1, 1)] for i in range(min(count, len(values)))})


def _days_between(days: list[int], count: int) -> list[int]:
    distance = max((days[-1] - days[0]) // max(count, 1), 2)
    numbers = [days[0] + 1 + i * distance for i in range(count)]
    return [number + (number % _STEP == 0) for number in numbers]


def _build_sales(metastore: HiveMetastore, location: Path, star: Star, days: list[int]) -> None:
    columns = [("item", "int"), ("amount", "double")]
    if not location.exists():
        print(f"building {location.name} ...", file=sys.stderr)
        content = _parquet(
            pa.table(
                {
                    "item": pa.array(range(_ROWS_PER_FILE), pa.int32()),
                    "amount": pa.array([i / 8 for i in range(_ROWS_PER_FILE)], pa.float64()),
                }
            )
        )
        building = location.with_suffix(".building")
        for day in days:
            partition = building / f"day={day}"
            partition.mkdir(parents=True, exist_ok=True)
            for i in range(star.files):
                (partition / f"part-{i:05}.parquet").write_bytes(content)
        building.rename(location)
    create_table(
        metastore, star.sales, location, columns, [("day", "int")], [str(day) for day in days]
    )


def _build_dates(metastore: HiveMetastore, location: Path, star: Star, days: list[int]) -> None:
    few, many = set(star.few), set(star.many)
    location.mkdir(parents=True, exist_ok=True)
    rows = pa.table(
        {
            "d_day": pa.array(days, pa.int32()),
            "d_name": pa.array([f"day {day}" for day in days]),
            "few": pa.array([int(day in few) for day in days], pa.int32()),
            "many": pa.array([int(day in many) for day in days], pa.int32()),
        }
    )
    (location / "part-00000.parquet").write_bytes(_parquet(rows))
    columns = [("d_day", "int"), ("d_name", "string"), ("few", "int"), ("many", "int")]
    create_table(metastore, star.dates, location, columns)


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()
