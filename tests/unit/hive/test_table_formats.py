"""Read formats from a catalog's metadata, and tables that cannot be read from their files alone."""

from __future__ import annotations

import pytest

from splitlib import UnsupportedTable
from splitlib.hive.entries import is_recursive, refuse_unreadable, serde_format, source_format
from splitlib.model import ReadFormat

HIVE = "org.apache.hadoop.hive."
LAZY = f"{HIVE}serde2.lazy.LazySimpleSerDe"
TEXT = "org.apache.hadoop.mapred.TextInputFormat"
# Property names in Hive's classes serdeConstants, LazySerDeParameters and OpenCSVSerde.
PROPERTIES = """
field.delim colelction.delim collection.delim mapkey.delim serialization.format escape.delim
serialization.null.format serialization.last.column.takes.rest serialization.encoding
hive.serialization.extend.nesting.levels hive.serialization.extend.additional.nesting.levels
timestamp.formats textinputformat.record.delimiter separatorChar quoteChar escapeChar
"""


@pytest.mark.parametrize("name", PROPERTIES.split())
def test_what_a_text_serde_goes_by_is_kept(name):
    found = serde_format(LAZY, TEXT, {name: "x", "totalSize": "7", "columns": "a"})
    assert found == ReadFormat("hive-text", ((name, "x"),))


@pytest.mark.parametrize(
    ("serde", "name"),
    [
        (f"{HIVE}ql.io.parquet.serde.ParquetHiveSerDe", "parquet"),
        ("parquet.hive.serde.ParquetHiveSerDe", "parquet"),
        (f"{HIVE}ql.io.orc.OrcSerde", "orc"),
        (LAZY, "hive-text"),
        (f"{HIVE}serde2.OpenCSVSerde", "hive-csv"),
    ],
)
def test_serdes(serde, name):
    assert serde_format(serde, TEXT, {"field.delim": ","}).name == name
    if name in ("parquet", "orc"):
        assert serde_format(serde, "any", {"field.delim": ","}) == ReadFormat(name)
    else:
        with pytest.raises(UnsupportedTable, match=r"The SerDe .* over SequenceFile"):
            serde_format(serde, "SequenceFile", {})


@pytest.mark.parametrize("serde", [f"{HIVE}serde2.RegexSerDe", None, ""])
def test_other_serdes(serde):
    with pytest.raises(UnsupportedTable, match=f"The SerDe {serde or 'unknown'} over"):
        serde_format(serde, TEXT, {})


@pytest.mark.parametrize("provider", ["parquet", "ORC", "json", "csv", "text"])
def test_sources_of_spark(provider):
    options = {"path": "/t", "serialization.format": "1", "header": "true", "Sep": ";"}
    wanted = ReadFormat(provider.lower(), (("Sep", ";"), ("header", "true")))
    assert source_format(provider, options, is_partitioned=True) == wanted
    # These options select files. Spark does not apply them to partitions from a catalog.
    selecting = {"PathGlobFilter": "*.csv", "modifiedAfter": "2024-01-01T00:00:00"}
    assert source_format(provider, options | selecting, is_partitioned=True) == wanted


def test_sources_that_are_refused():
    with pytest.raises(UnsupportedTable, match="The data source 'avro'"):
        source_format("avro", {}, is_partitioned=True)
    options = {"pathGlobFilter": "*.csv", "header": "true"}
    with pytest.raises(UnsupportedTable, match="only some of the files: pathGlobFilter"):
        source_format("csv", options, is_partitioned=False)


@pytest.mark.parametrize(
    ("kind", "provider", "input_format", "parameters", "says"),
    [
        ("VIRTUAL_VIEW", "", "", {}, "The table is a view"),
        ("MATERIALIZED_VIEW", "", "", {}, "The table is a view"),
        ("MANAGED_TABLE", "", "", {"transactional": "TRUE"}, "transactional"),
        ("EXTERNAL_TABLE", "", "", {"table_type": "iceberg"}, "connector='iceberg'"),
        ("EXTERNAL_TABLE", "Iceberg", "", {}, "connector='iceberg'"),
        ("EXTERNAL_TABLE", "", "", {"table_type": "DELTA"}, "The table is a Delta table"),
        ("EXTERNAL_TABLE", "delta", "", {}, "The table is a Delta table"),
        ("EXTERNAL_TABLE", "hudi", "", {}, "The table is a Hudi table"),
        ("EXTERNAL_TABLE", "", "org.apache.hudi.HoodieX", {}, "The table is a Hudi table"),
        ("EXTERNAL_TABLE", "", "com.uber.HoodieInputFormat", {}, "The table is a Hudi table"),
        ("EXTERNAL_TABLE", "", "", {"storage_handler": "hbase"}, "storage handler"),
        ("EXTERNAL_TABLE", "", f"{HIVE}ql.io.SymlinkTextInputFormat", {}, "symlinks"),
    ],
)
def test_tables_that_are_more_than_their_files(kind, provider, input_format, parameters, says):
    with pytest.raises(UnsupportedTable, match=says):
        refuse_unreadable(kind, provider, input_format, parameters)


def test_tables_that_are_their_files():
    refuse_unreadable("MANAGED_TABLE", "parquet", TEXT, {"transactional": "false"})


def test_directories_below():
    assert is_recursive(ReadFormat("csv", (("recursiveFileLookup", "True"),)))
    assert not is_recursive(ReadFormat("csv", (("recursiveFileLookup", "false"),)))
    assert not is_recursive(ReadFormat("csv"))
