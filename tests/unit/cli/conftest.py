"""A fixture with a table of files for the commands."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.command_line import NULL


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Create a table with the partition keys ``day`` (int) and ``kind`` (string).

    It has the partitions 1/a, 1/b, 2/a%2Fc and null/a. The directory name ``a%2Fc`` stands for the
    value ``a/c``. The partition 1/b has two files, the others have one.
    """
    root = tmp_path / "table"
    for name, files in [
        ("day=1/kind=a", 1),
        ("day=1/kind=b", 2),
        ("day=2/kind=a%2Fc", 1),
        (f"day={NULL}/kind=a", 1),
    ]:
        directory = root / name
        directory.mkdir(parents=True)
        for i in range(files):
            pq.write_table(pa.table({"x": [i]}), directory / f"{i}.parquet")
    return root
