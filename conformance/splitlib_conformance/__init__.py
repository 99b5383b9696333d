"""The test kit for splitlib connectors.

A connector passes if it lists all files of a table and no others, returns all matching files for
every filter, sends no request too early, and raises clear errors. To adopt the kit, write two
classes: a harness, which creates tables without using your connector, and a subclass of
:class:`ConnectorConformance`. This is the complete code for a connector of local directories::

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

A connector that has no entry point yet must be registered with ``splitlib.register``. If it
implements protocols of :mod:`splitlib.spi`, list them in the test class. Then a misspelled method
name makes a test fail::

    capabilities = frozenset({SupportsPartitionDetails})

A harness that overrides more methods of :class:`Harness` enables more tests. With these methods,
tests make the source fail, count calls and connections, or drop tables. A test that uses a missing
method is skipped with the reason "not tried: the harness has no way to ...". ``pytest -rs`` lists
the skipped tests. If your connector cannot pass a test, declare the failure with its reason::

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
