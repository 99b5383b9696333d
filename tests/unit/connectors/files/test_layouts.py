"""Unusual directory layouts are read as Spark reads them, or refused."""

from __future__ import annotations

import itertools
import shutil
from datetime import date

import pyarrow as pa
import pytest
from pyarrow import parquet

import splitlib
from splitlib.filtering.predicate import Predicate
from splitlib.storage import Storage
from splitlib_files import FilesConnector

ALL = Predicate(pa.schema([]), [])
NOTHING_MERGED = {"spark.sql.parquet.mergeSchema": "false"}


def write(root, *paths):
    """Write a file for each path. A path that ends with a slash becomes a directory."""
    for number, path in enumerate(paths):
        if path.endswith("/"):
            (root / path).mkdir(parents=True)
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"v": [number]}), root / path)
    return root


def types_of(root, **options):
    with FilesConnector.open(str(root), options) as connector:
        return {field.name: str(field.type) for field in connector.describe().partition_schema}


def rows_of(root, *, keys=None, **options):
    """Return the partition values and the number of each selected file."""
    with splitlib.load_table(str(root), "files", **options) as table:
        enumerator = splitlib.DynamicFileEnumerator(table)
        if keys is not None:
            data = splitlib.DynamicFilteringData.from_values(keys)
            enumerator.set_dynamic_filtering_data(data)
        splits = list(enumerator.enumerate_splits())
    return sorted(
        (
            *split.partition_values.values(),
            parquet.read_table(split.path, partitioning=None)["v"][0].as_py(),
        )
        for split in splits
    )


def test_names_of_keys_are_unescaped(tmp_path):
    write(tmp_path, "x%3Dy=1/p%2Fq=a/f", "x%3Dy=2/p%2Fq=b/f")
    assert types_of(tmp_path) == {"x=y": "int32", "p/q": "string"}
    assert rows_of(tmp_path, keys={"x=y": [2]}) == [(2, "b", 1)]
    assert rows_of(tmp_path, partition_schema=pa.schema({"x=y": pa.int64(), "p/q": pa.string()}))


def test_files_in_directories_below_a_partition_are_its_rows(tmp_path):
    write(
        tmp_path,
        "k=1/HIVE_UNION_SUBDIR_1/000000_0",
        "k=1/HIVE_UNION_SUBDIR_2/000000_0",
        "k=1/f",
        "k=2/a/b/f",
        "k=2/_hidden/f",
    )
    for options in ({}, {"schema": "v bigint"}, {"partition_schema": "k int"}):
        assert rows_of(tmp_path, **options) == [(1, 0), (1, 1), (1, 2), (2, 3)]
        assert rows_of(tmp_path, keys={"k": [2]}, **options) == [(2, 3)]


def test_columns_are_those_of_the_first_file_by_its_path(tmp_path):
    for path, columns in {
        "k=1/a/f": {"v": [1]},
        "k=1/b": {"w": [1]},
        "k=1/B/f": {"u": [1]},
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table(columns), tmp_path / path)
    assert FilesConnector.open(str(tmp_path), {}).describe().data_schema.names == ["u"]


def test_columns_are_those_of_a_summary_file(tmp_path):
    def names(**options):
        with FilesConnector.open(str(tmp_path), options) as connector:
            return connector.describe().schema.names

    write(tmp_path, "k=1/f")
    assert names() == ["v", "k"]
    for name in ("_metadata", "_common_metadata", "_other_metadata"):
        parquet.write_metadata(pa.schema([(name, pa.int64())]), tmp_path / name)
    assert names() == ["_common_metadata", "k"]
    (tmp_path / "_common_metadata").unlink()
    assert names() == ["_metadata", "k"]
    # Spark selects all files by the pattern, and these are none of its files.
    assert names(path_glob="*f") == ["v", "k"]
    assert names(schema="x int") == ["x", "k"]
    (tmp_path / "_metadata").unlink()
    assert names() == ["v", "k"]


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("directory", ["k=1", "."])
def test_empty_files_have_no_columns(tmp_path, merged, directory):
    """As in Spark, the first file with bytes has the columns."""
    write(tmp_path, f"{directory}/f")
    (tmp_path / directory / "a").touch()
    with FilesConnector.open(str(tmp_path), {"merge_schema": merged}) as connector:
        assert connector.describe().data_schema.names == ["v"]
    (tmp_path / directory / "f").write_bytes(b"")
    with pytest.raises(splitlib.TableNotFound, match="no data file"):
        FilesConnector.open(str(tmp_path), {"merge_schema": merged})


def test_local_roots_are_normalized(tmp_path, monkeypatch):
    write(tmp_path, "t/k=1/f")
    monkeypatch.chdir(tmp_path)
    root = f"{tmp_path}/t"
    for name in (f"{root}/.", f"{tmp_path}/x/../t", f"file:{root}/../t", "t", "./t", "x/../t//"):
        with splitlib.load_table(name, "files") as table:
            assert table.files()["path"].to_pylist() == [f"{root}/k=1/f"]
            assert table.metadata.location == root
    with splitlib.load_table(f"file://{root}", "files") as table:
        assert table.metadata.location == f"file://{root}"


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (["k=1/f", "k=2/m=1/f"], "more partition keys than k"),
        (["k=1/m=1/f", "k=2/f"], "is in a directory above the partitions of 'm'"),
        (["k=1/f", "k=1/m=1/f"], "more partition keys than k"),
        (["k=1/s/m=1/f", "k=2/f"], "more partition keys than k"),
        (["x/f", "k=1/f"], "is not a partition of 'k'"),
        (["k=1/f", "x/k=1/f"], "is not a partition of 'k'"),
    ],
    ids=str,
)
def test_rows_of_uneven_directories_are_not_left_out(tmp_path, paths, says):
    write(tmp_path, *paths)
    for options in ({}, {"schema": "v bigint", "partition_schema": "k int, m int"}):
        with pytest.raises(splitlib.SplitlibError) as caught:
            rows_of(tmp_path, **options)
        assert options or says in str(caught.value)


@pytest.mark.parametrize(
    ("paths", "options", "says"),
    [
        (["x/k=1/f"], {}, "neither in it nor in partitions"),
        (["x/f"], {"schema": "v bigint"}, "neither in it nor in partitions"),
        (["k=1/K=2/f"], {}, "repeat partition key 'K'"),
        (["=1/f"], {}, "does not name a partition key"),
        (["k=1/f"], {"partition_schema": pa.schema([])}, "has partitions"),
        (["f"], {"partition_schema": "k int"}, "is in a directory above the partitions of 'k'"),
    ],
    ids=str,
)
def test_directories_whose_rows_nobody_could_find(tmp_path, paths, options, says):
    write(tmp_path, *paths)
    with pytest.raises(splitlib.SplitlibError, match=says):
        rows_of(tmp_path, **options)


def test_files_next_to_partitions_are_left_out_as_spark_does(tmp_path):
    write(tmp_path, "README", "k=1/f")
    assert rows_of(tmp_path) == [(1, 1)]


@pytest.mark.parametrize(
    ("path", "kind", "hint"),
    [
        ("_delta_log/00000000000000000000.json", "Delta Lake", "connector='delta'"),
        (".hoodie/hoodie.properties", "Hudi", "Hudi's package"),
        ("metadata/v1.metadata.json", "Iceberg", "connector='iceberg'"),
        ("metadata/00000-6a.metadata.json", "Iceberg", "connector='iceberg'"),
    ],
)
def test_tables_of_other_formats_are_refused(tmp_path, path, kind, hint):
    write(tmp_path, "k=1/f", path)
    declared = {"schema": "v bigint", "partition_schema": "k int"}
    for options in ({}, declared):
        with pytest.raises(splitlib.UnsupportedTable, match=f"a table of {kind}: it has") as caught:
            types_of(tmp_path, **options)
        assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("log", "inside"),
    [
        ("_delta_log/0.json", "k=1"),
        ("_delta_log/0.json", "k=1/m=2"),
        (".hoodie/hoodie.properties", "k=1"),
        ("metadata/v1.metadata.json", "data"),
        ("metadata/v1.metadata.json", "data/k=1"),
    ],
)
def test_a_part_of_such_a_table_is_refused(tmp_path, log, inside):
    write(tmp_path, log, f"{inside}/f")
    with pytest.raises(splitlib.UnsupportedTable, match="is a table of"):
        types_of(tmp_path / inside)


def test_a_table_of_iceberg_is_known_beside_its_manifests(tmp_path):
    write(tmp_path, "k=1/f", "metadata/v1.metadata.json", "metadata/snap-1.avro")
    with pytest.raises(splitlib.UnsupportedTable, match="a table of Iceberg"):
        types_of(tmp_path)


def test_the_output_of_a_stream_is_refused(tmp_path):
    write(tmp_path, "k=1/f", "_spark_metadata/0")
    with pytest.raises(splitlib.UnsupportedTable, match="output of a Spark stream"):
        types_of(tmp_path, schema="v bigint", partition_schema="k int")
    assert types_of(tmp_path / "k=1") == {}  # Spark, too, reads all files of a subdirectory


def test_a_part_of_a_plain_table_is_read(tmp_path):
    write(tmp_path, "k=1/m=2/f", "metadata/note", "data/f")
    assert types_of(tmp_path / "k=1") == {"m": "int32"}
    assert types_of(tmp_path / "data") == {}


def test_types_are_those_of_all_directories(tmp_path):
    write(tmp_path, "a=1/b=2024-01-01/f", "a=01/b=x/f", "a=3000000000/b=2024-01-01/f")
    assert types_of(tmp_path) == {"a": "int64", "b": "string"}
    assert rows_of(tmp_path, keys={"a": [1], "b": ["x"]}) == [(1, "x", 1)]
    declared = "a string, b string"
    assert types_of(tmp_path, partition_schema=declared) == {"a": "string", "b": "string"}
    assert rows_of(tmp_path, keys={"a": ["01"]}, partition_schema=declared) == [("01", "x", 1)]


def test_directories_without_files_have_no_say_in_types(tmp_path):
    write(tmp_path, "k=1/f", "k=abc/", "k=1.5/_temporary/f", "k=2024-01-01/empty/")
    assert types_of(tmp_path) == {"k": "int32"}
    (tmp_path / "k=abc").rmdir()
    write(tmp_path, "k=abc/sub/f")
    assert types_of(tmp_path) == {"k": "string"}


@pytest.mark.parametrize("others", [["p=2024-1-1"], ["p=a", "p=2024-02-29"]])
def test_null_is_the_type_if_only_nulls_have_files(tmp_path, others):
    write(tmp_path, "p=__HIVE_DEFAULT_PARTITION__/f", *(f"{name}/" for name in others))
    assert types_of(tmp_path) == {"p": "null"}


def test_a_branch_without_files_does_not_tell_the_keys(tmp_path):
    write(tmp_path, "k=0/", "k=1/m=2/f")
    assert types_of(tmp_path) == {"k": "int32", "m": "int32"}
    assert rows_of(tmp_path) == [(1, 2, 1)]


def test_a_later_directory_does_not_change_types(tmp_path):
    write(tmp_path, "k=1/f")
    with FilesConnector.open(str(tmp_path), {}) as connector:
        write(tmp_path, "k=02/f")
        (batch,) = connector.list_partitions(ALL)
        assert batch.values.to_pydict() == {"k": [2, 1]}
        write(tmp_path, "k=abc/f")
        with pytest.raises(splitlib.SourceError, match=r"Files were added to .*k=abc"):
            list(connector.list_partitions(ALL))
        assert connector.describe().schema.field("k").type == pa.int32()
    assert types_of(tmp_path) == {"k": "string"}


def test_the_types_that_a_later_directory_does_not_fit_are_named(tmp_path):
    write(tmp_path, "k=1/m=a/f", "k=2/m=b/f")
    with FilesConnector.open(str(tmp_path), {}) as connector:
        write(tmp_path, "k=abc/m=a/f")
        with pytest.raises(splitlib.SourceError, match=r"types: k is int32\."):
            list(connector.list_partitions(ALL))
    write(tmp_path / "t", "k=1/m=1/f", "k=2/m=2/f")
    with FilesConnector.open(str(tmp_path / "t"), {}) as connector:
        write(tmp_path / "t", "k=2/m=abc/f")
        with pytest.raises(splitlib.SourceError, match=r"types: k is int32, m is int32\."):
            list(connector.list_partitions(ALL))


def test_settings_of_the_session_that_reads(tmp_path):
    write(tmp_path, "k=1/t=2024-01-01 00%3A00%3A00/f")
    inference = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}
    local = {"spark.sql.timestampType": "TIMESTAMP_NTZ"}
    assert types_of(tmp_path) == {"k": "int32", "t": "timestamp[us, tz=UTC]"}
    assert types_of(tmp_path, session_settings=local)["t"] == "timestamp[us]"
    assert types_of(tmp_path, session_settings=inference) == {"k": "string", "t": "string"}


def test_a_directory_that_is_deleted_after_it_was_listed_has_no_first_file(tmp_path, monkeypatch):
    write(tmp_path, "k=1/f", "k=2/g")
    level = Storage.level

    def deleting(self, location, **how):
        if location.endswith("k=1"):
            shutil.rmtree(location)
        return level(self, location, **how)

    monkeypatch.setattr(Storage, "level", deleting)
    with FilesConnector.open(str(tmp_path), {}) as connector:
        assert connector.describe().data_schema.names == ["v"]


def test_types_of_one_key_take_no_request(tmp_path, monkeypatch):
    write(tmp_path, "k=1/f", "k=2/f", "k=3/f")
    asked = []
    level = Storage.level

    def counting(self, location, **how):
        asked.append(location)
        return level(self, location, **how)

    monkeypatch.setattr(Storage, "level", counting)
    FilesConnector.open(str(tmp_path), {})
    assert asked == [str(tmp_path), f"{tmp_path}/k=1"]
    asked.clear()
    FilesConnector.open(str(tmp_path), {"schema": "v bigint", "partition_schema": "k int"})
    assert asked == [str(tmp_path)]


def test_values_are_dates(tmp_path):
    write(tmp_path, "d=2024-01-31/f", "d=2024-02-01/f", "d=__HIVE_DEFAULT_PARTITION__/f")
    assert rows_of(tmp_path, keys={"d": [date(2024, 2, 1)]}) == [(date(2024, 2, 1), 1)]


@pytest.mark.parametrize("path", ["k=caf%C3%A9/f", "caf%c3%a9=1/f", "a=1/k=%E2%82%AC/f"])
def test_escapes_of_bytes_are_refused_until_somebody_says_what_they_are(tmp_path, path):
    write(tmp_path, path)
    with pytest.raises(splitlib.SourceError, match="Spark reads them as"):
        rows_of(tmp_path)
    assert len(rows_of(tmp_path, percent_escapes="utf-8")) == 1


def test_escapes_of_bytes(tmp_path):
    write(tmp_path, "k%C3%A9=caf%C3%A9%20%2F%25/f", "k%C3%A9=b/f")
    keys = {"k\xe9": ["caf\xe9 /%"]}
    assert rows_of(tmp_path, percent_escapes="UTF-8", keys=keys) == [("caf\xe9 /%", 0)]
    mistaken = {"k\xc3\xa9": ["caf\xc3\xa9 /%"]}
    for options in ({"percent_escapes": "spark"}, {"session_settings": NOTHING_MERGED}):
        assert rows_of(tmp_path, keys=mistaken, **options) == [("caf\xc3\xa9 /%", 0)]
    write(tmp_path, "k%C3%A9=%FF/f")
    with pytest.raises(splitlib.SourceError, match="not valid UTF-8"):
        rows_of(tmp_path, percent_escapes="utf-8")
    with pytest.raises(splitlib.ConfigError, match="percent_escapes must be"):
        rows_of(tmp_path, percent_escapes="latin-1")


def test_columns_that_are_not_to_be_merged(tmp_path):
    write(tmp_path, "k=1/f")
    merged = {"spark.sql.parquet.mergeSchema": "true", "spark.sql.orc.mergeSchema": "true"}
    assert rows_of(tmp_path, read_options={"mergeSchema": "false"}) == [(1, 0)]
    types_of(tmp_path, read_options={"mergeSchema": False}, session_settings=merged)
    types_of(tmp_path, session_settings={"spark.sql.orc.mergeSchema": "true"})


@pytest.mark.parametrize("declared", [False, True])
def test_links_to_links_end(tmp_path, declared):
    root = tmp_path / "root"
    (root / "k=1").mkdir(parents=True)
    steps = [tmp_path / f"d{n}" for n in range(26)]
    for step in steps:
        step.mkdir()
    for step, following in itertools.pairwise(steps):
        (step / "a").symlink_to(following)
        (step / "b").symlink_to(following)
    (root / "k=1" / "s").symlink_to(steps[0])
    options = {"schema": "v bigint", "partition_schema": "k int"} if declared else {}
    with pytest.raises(splitlib.SourceError, match="paths through symbolic links"):
        rows_of(root, **options)
