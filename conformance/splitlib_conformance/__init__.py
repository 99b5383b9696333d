"""The test kit for connectors of splitlib.

A connector passes when it lists all files of a table and nothing else, loses no match under any
filter, does no work before it is asked to, and says what went wrong. To adopt the kit, write a
harness, which makes tables without your connector, and a subclass of :class:`ConnectorConformance`.
This is all that a connector of directories on the local disk needs::

    import shutil
    from pathlib import Path

    import pytest

    from splitlib_conformance import (
        ConnectorConformance,
        Harness,
        TableAddress,
        hive_directory,
        write_files,
    )


    class FilesHarness(Harness):
        def __init__(self, root: Path):
            self.root = root

        def create_table(self, data_schema, partition_schema):
            name = self.root / f"table{len(list(self.root.iterdir()))}"
            name.mkdir()
            return TableAddress(
                str(name), {"schema": data_schema, "partition_schema": partition_schema}
            )

        def add(self, table, partitions):
            return [
                file
                for partition in partitions
                for file in write_files(self._directory(table, partition.values), partition)
            ]

        def drop(self, table, values):
            shutil.rmtree(self._directory(table, values))

        def missing_table(self):
            return TableAddress(str(self.root / "missing"))

        def _directory(self, table, values):
            return f"{table.name}/{hive_directory(values)}".rstrip("/")


    class TestFiles(ConnectorConformance):
        connector = "files"

        @pytest.fixture
        def harness(self, tmp_path):
            return FilesHarness(tmp_path)

A connector that no entry point names yet is made known with ``splitlib.register``. One that
implements protocols of :mod:`splitlib.spi` names them in its test class, so that none of them is
lost by a misspelled method::

        capabilities = frozenset({SupportsPartitionDetails})

A harness may do more, see :class:`Harness`: have the source fail, count its calls and connections,
drop tables. What it leaves out is reported as skipped, "not tried: the harness has no way to ...";
``pytest -rs`` lists that. A test that the connector cannot pass is not skipped, but declared to
fail, with the reason::

        @pytest.mark.xfail(reason="one request lists the whole table", strict=True)
        def test_pruned_partitions_are_not_listed(self, harness):
            super().test_pruned_partitions_are_not_listed(harness)
"""

from splitlib_conformance.harness import (
    Harness,
    NewPartition,
    TableAddress,
    WrittenFile,
    hive_directory,
    hive_text,
    not_tried,
    write_files,
)
from splitlib_conformance.kit import ConnectorConformance
from splitlib_conformance.source_calls import SourceCalls

__all__ = [
    "ConnectorConformance",
    "Harness",
    "NewPartition",
    "SourceCalls",
    "TableAddress",
    "WrittenFile",
    "hive_directory",
    "hive_text",
    "not_tried",
    "write_files",
]
