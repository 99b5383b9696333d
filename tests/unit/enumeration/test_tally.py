"""The average number of files per partition while several threads list partitions."""

import pyarrow as pa

from splitlib.enumeration.tally import ScanTally
from splitlib.model import FILE_SCHEMA, FileBatch
from tests.support.memory_connector import PARQUET


def test_files_count_only_together_with_their_partitions():
    tally = ScanTally()
    tally.listed([2] * 10, together=True)
    files = {"path": ["/a", "/b"], "size": [1, 1], "modified": [0, 0], "partition": [0, 0]}
    # Another thread counts the files of a listing just before it counts the listed partitions.
    tally.files(FileBatch(pa.RecordBatch.from_pydict(files, FILE_SCHEMA), PARQUET))
    assert tally.files_each() == 2
    tally.listed([2], together=True)
    assert tally.files_each() == 2
