"""Read formats from a catalog's metadata, and tables that cannot be read from their files alone."""

from __future__ import annotations

import pytest

from splitlib import UnsupportedTable
from splitlib.hive.entries import (
    StorageEntry,
    TableEntry,
    hadoop_location,
    is_recursive,
    metadata_of,
    refuse_unreadable,
    serde_format,
    source_format,
)
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


def stored(serde, properties, *, parameters=None, input_format=TEXT):
    return StorageEntry("/t", serde, input_format, properties, parameters or {})


def format_of(serde, properties, **more):
    return serde_format(stored(serde, properties, **more), is_partitioned=True)


@pytest.mark.parametrize("name", PROPERTIES.split())
def test_properties_of_a_text_serde(name):
    given = {name: "x", "totalSize": "7", "columns": "a"}
    assert format_of(LAZY, given) == ReadFormat("hive-text", ((name, "x"),))
    assert format_of(LAZY, {}, parameters=given) == ReadFormat("hive-text", ((name, "x"),))
    table, partition = stored(LAZY, {name: "y"}, parameters={name: "z"}), stored(LAZY, given)
    merged = serde_format(table, partition, is_partitioned=True)
    assert merged == ReadFormat("hive-text", ((name, "x"),))


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
    assert format_of(serde, {"field.delim": ","}).name == name
    if name in ("parquet", "orc"):
        assert format_of(serde, {"serialization.format": "1"}, input_format="any").options == ()
    else:
        with pytest.raises(UnsupportedTable, match=r"The SerDe .* over SequenceFile"):
            format_of(serde, {}, input_format="SequenceFile")


@pytest.mark.parametrize("name", ["orc", "parquet"])
def test_options_of_a_converted_table(name):
    """Spark passes the table's parameters for the format, and all its SerDe properties."""
    serde = f"{HIVE}ql.io.{name}.{'serde.ParquetHiveSerDe' if name == 'parquet' else 'OrcSerde'}"
    parameters = {f"{name}.a": "1", f"x.{name}.b": "2", f"x.{name}": "3", "totalSize": "7"}
    given = {f"{name}.a": "4", "c": "5", "path": "/t", "pathGlobFilter": "*"}
    table = stored(serde, {**given, "recursiveFileLookup": "true"}, parameters=parameters)
    wanted = {f"{name}.a": "4", f"x.{name}.b": "2", "c": "5"}
    partition = stored(serde, {f"{name}.a": "6"}, parameters={f"{name}.d": "7"})
    for other in (None, partition):
        assert serde_format(table, other, is_partitioned=True) == ReadFormat.of(name, wanted)
    with pytest.raises(UnsupportedTable, match="only some of its files: pathGlobFilter"):
        serde_format(table, is_partitioned=False)
    assert is_recursive(
        serde_format(stored(serde, {"recursiveFileLookup": "true"}), is_partitioned=False)
    )


@pytest.mark.parametrize("kind", ["date", "array<timestamp>", "struct<a:TIMESTAMP>"])
def test_times_of_a_partition_in_another_format(kind):
    table, partition = stored(LAZY, {}), stored(f"{HIVE}ql.io.orc.OrcSerde", {})
    with pytest.raises(UnsupportedTable, match="is ORC with dates or times"):
        serde_format(table, partition, is_partitioned=True, types=["int", kind])
    assert serde_format(table, partition, is_partitioned=True, types=["int"]).name == "orc"
    assert serde_format(partition, is_partitioned=True, types=[kind]).name == "orc"


@pytest.mark.parametrize("serde", [f"{HIVE}serde2.RegexSerDe", None, ""])
def test_other_serdes(serde):
    with pytest.raises(UnsupportedTable, match=f"The SerDe {serde or 'unknown'} over"):
        format_of(serde, {})


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
    with pytest.raises(UnsupportedTable, match="only some of its files: pathGlobFilter"):
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


def test_partitions_that_are_read_recursively_are_refused():
    """Spark 4.3 fails, and older versions ignore the option."""
    options = {"RecursiveFileLookup": "TRUE"}
    assert is_recursive(source_format("parquet", options, is_partitioned=False))
    with pytest.raises(UnsupportedTable, match="sets recursiveFileLookup"):
        source_format("parquet", options, is_partitioned=True)
    off = {"recursiveFileLookup": "false"}
    assert source_format("parquet", off, is_partitioned=True).name == "parquet"


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("s3://b//t/k=1", "s3://b/t/k=1"),
        ("s3a://b/t//k=1///m=2", "s3a://b/t/k=1/m=2"),
        ("s3://b/t/", "s3://b/t/"),
        ("s3://b/t//", "s3://b/t/"),
        ("file:///t//a", "file:///t/a"),
        ("file:/t//a", "file:/t/a"),
        ("/t//a", "/t/a"),
        ("hdfs:///t/a", "hdfs:///t/a"),
        ("", ""),
        (None, None),
    ],
)
def test_locations_are_read_as_hadoop_reads_them(stored, read):
    assert hadoop_location(stored) == read


@pytest.mark.parametrize("place", ["s3://b/t/*", "s3://b/{x,y}", "/t/[ab]", "/t/a?", "/t/a\\b"])
@pytest.mark.parametrize("provider", ["csv", None])
def test_a_location_that_is_a_pattern_is_refused(place, provider):
    """Spark reads all directories that match it. It does not do this for partitioned tables."""
    source = {"spark.sql.sources.provider": provider}
    schema = '{"type": "struct", "fields": [{"name": "a", "type": "integer"}]}'
    parameters = {**source, "spark.sql.sources.schema": schema} if provider else {}
    serde = f"{HIVE}ql.io.orc.OrcSerde"
    for location, keys in ((place, ()), (place, [("k", "int")]), ("/t/a", ())):
        if keys and provider:
            continue
        own = StorageEntry(location, serde, TEXT, {}, parameters)
        table = TableEntry("EXTERNAL_TABLE", [("a", "int")], keys, own, is_list_bucketed=False)
        if location == place and not keys:
            with pytest.raises(UnsupportedTable, match="is a pattern, which Spark expands"):
                metadata_of(table)
        else:
            assert metadata_of(table).location == location
