"""Iceberg catalogs that exist, are missing, do not respond, or have contradictory settings."""

from __future__ import annotations

import gzip
import os
import random
from io import BytesIO
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

import splitlib
from splitlib_iceberg import IcebergConnector
from splitlib_iceberg.unpacking import GuardedFileIO, limit_of, received, unpacks_by_gzip
from tests.support.iceberg_tables import (
    append,
    catalog_options,
    create,
    data_file,
    make_catalog,
    open_table,
    select,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE, Keys


def test_by_the_properties_of_pyiceberg(catalog, table, tmp_path):
    name = ".".join(table.name())
    with splitlib.load_table(name, "iceberg", **catalog_options(tmp_path)) as opened:
        assert len(select(opened)[0]) == 2


def test_the_type_of_a_catalog_is_inferred_from_its_uri(catalog, table, tmp_path):
    options = {name: v for name, v in catalog_options(tmp_path).items() if name != "type"}
    with splitlib.load_table(".".join(table.name()), "iceberg", **options) as opened:
        assert len(select(opened)[0]) == 2


def test_by_the_name_of_a_configured_catalog(tmp_path, monkeypatch):
    # PyIceberg reads its configuration when it is imported, so use a new process.
    made = make_catalog(tmp_path / "lake", "lake")
    made_table = create(made, SIMPLE, BY_D)
    append(made_table, [data_file(made_table, [{"d": 1}])])
    made.close()
    options = catalog_options(tmp_path / "lake")
    environment = {f"PYICEBERG_CATALOG__LAKE__{key.upper()}": v for key, v in options.items()}
    code = (
        "import splitlib\n"
        f"t = splitlib.load_table({'.'.join(made_table.name())!r}, 'iceberg', catalog='lake')\n"
        "print(len(splitlib.paths(t)))"
    )
    assert _python(code, environment) == "1"


def _python(code, environment):
    import subprocess
    import sys

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout.strip()


def test_a_catalog_in_memory(tmp_path):
    memory = load_catalog("m", type="in-memory", warehouse=tmp_path.as_uri())
    memory.create_namespace("ns")
    table = create(memory, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    assert len(select(open_table(memory, table))[0]) == 1
    memory.close()


def test_a_database_of_a_catalog_of_another_name(tmp_path):
    """A SQL catalog stores its name in each row. Readers may omit the name if it is unique."""
    options = catalog_options(tmp_path)
    lake, mill = make_catalog(tmp_path, "lake"), make_catalog(tmp_path, "mill")
    for catalog, name, value in ((lake, "only", 1), (lake, "both", 2), (mill, "both", 3)):
        made = catalog.create_table(f"ns.{name}", SIMPLE, partition_spec=BY_D)
        append(made, [data_file(made, [{"d": value}])])
    with splitlib.load_table("ns.only", "iceberg", **options) as opened:
        assert len(select(opened)[0]) == 1
    with pytest.raises(splitlib.ConfigError, match="catalogs: lake, mill") as caught:
        splitlib.load_table("ns.both", "iceberg", **options)
    assert "catalog=" in str(caught.value)
    with splitlib.load_table("ns.both", "iceberg", catalog="mill", **options) as opened:
        keys = Keys.from_values({"d": [3]})
        assert len(select(opened, keys)[0]) == 1
    # If the catalog name is given, tables of other catalogs are not found.
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("ns.only", {"catalog": "mill"}),
        ("ns.only", {"catalog": "default"}),
        ("ns.none", {}),
        ("other.only", {}),
    ]
    for name, named in wrong:
        with pytest.raises(splitlib.TableNotFound):
            splitlib.load_table(name, "iceberg", **named, **options)
    with pytest.raises(splitlib.ConfigError, match="several catalogs: lake, mill") as caught:
        list(IcebergConnector.table_names(None, options))
    assert "catalog=" in str(caught.value)
    for given, expected in (("lake", ["both", "only"]), ("mill", ["both"])):
        found = IcebergConnector.table_names(None, {"catalog": given, **options})
        assert list(found) == [("ns", name) for name in expected]
    lake.close()
    mill.close()


def test_tables_of_a_namespace(catalog, table, monkeypatch):
    catalog.create_namespace("empty")
    assert list(IcebergConnector.table_names("ns", {"catalog": catalog})) == [table.name()]
    assert list(IcebergConnector.table_names("empty", {"catalog": catalog})) == []
    monkeypatch.setattr(catalog, "list_tables", lambda _: [])  # as catalogs that do not check
    with pytest.raises(splitlib.TableNotFound):
        list(IcebergConnector.table_names("missing", {"catalog": catalog}))


def test_no_such_table(catalog):
    for name in ("ns.missing", "missing.t", "missing"):
        with pytest.raises(splitlib.TableNotFound):
            splitlib.load_table(name, "iceberg", catalog=catalog)


def test_no_such_catalog(tmp_path):
    with pytest.raises(splitlib.ConfigError, match="cannot be opened"):
        splitlib.load_table("ns.t", "iceberg", catalog="nobody configured this")
    with pytest.raises(splitlib.ConfigError, match="cannot be opened"):
        splitlib.load_table("ns.t", "iceberg", type="fancy")
    # splitlib does not create a missing database.
    with pytest.raises(splitlib.TableNotFound):
        splitlib.load_table("ns.t", "iceberg", type="sql", uri=f"sqlite:///{tmp_path}/none.db")


def test_a_given_catalog_and_properties_contradict_each_other(catalog, table):
    with pytest.raises(splitlib.ConfigError, match="uri"):
        open_table(catalog, table, uri="sqlite://")


def test_secrets_stay_out_of_messages(tmp_path):
    secrets: dict[str, Any] = {
        "uri": "sqlite:////no/pass:word@dir/x.db",
        "s3.secret-access-key": "hunter2",
    }
    config = splitlib.SplitConfig(retry_attempts=1)
    with pytest.raises(splitlib.SplitlibError) as caught:
        splitlib.load_table("ns.t", "iceberg", config=config, type="sql", **secrets)
    assert "hunter2" not in repr(caught.value)
    with pytest.raises(splitlib.SplitlibError) as caught:
        splitlib.load_table("ns.t", "iceberg", type="nonsense", token="hunter2")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_catalog_that_does_not_answer():
    config = splitlib.SplitConfig(retry_attempts=1)
    with pytest.raises(splitlib.SourceUnavailable):
        splitlib.load_table("ns.t", "iceberg", config=config, type="rest", uri="http://127.0.0.1:9")


def test_no_file_is_written_or_deleted(tmp_path):
    location = tmp_path / "f"
    location.touch()
    files = GuardedFileIO({})
    with pytest.raises(NotImplementedError):
        files.new_output(str(location))
    with pytest.raises(NotImplementedError):
        files.delete(str(location))
    assert location.exists()


def with_header(data: bytes, flags: int, more: bytes = b"") -> bytes:
    """Change the header of a gzip file. Ten bytes are always there, and the fourth has flags."""
    return data[:3] + bytes([data[3] | flags]) + data[4:10] + more + data[10:]


LARGE = gzip.compress(b" " * (16 << 20), mtime=0)


@pytest.mark.parametrize(
    ("data", "is_too_large"),
    [
        (gzip.compress(b" " * 1000, mtime=0), False),
        (LARGE, True),
        # Python's gzip ignores these parts, and reads the rest.
        (gzip.compress(b"{}", mtime=0) + LARGE, True),
        (gzip.compress(b"{}", mtime=0) + bytes(3) + LARGE, True),
        (with_header(LARGE, 0x80), True),  # an unknown flag
        (with_header(LARGE, 2, b"no"), True),  # a wrong checksum of the header
    ],
)
def test_compressed_metadata_is_unpacked_within_limits(tmp_path, data, is_too_large):
    location = str(tmp_path / "v1.gz.metadata.json")
    (tmp_path / "v1.gz.metadata.json").write_bytes(data)
    found = GuardedFileIO({}).new_input(location)
    if is_too_large:
        with pytest.raises(splitlib.CorruptMetadata, match="decompresses to more"):
            found.open()
        return
    with found.open() as stream:
        assert gzip.decompress(stream.read()) == b" " * 1000


def test_the_limit_of_compressed_metadata():
    """Random bytes do not compress, and zeros behind them take the rest of the limit."""
    start = random.Random(1).randbytes(100)
    for more, is_within in ((0, True), (1, False)):
        size, data = 0, b""
        while (limit := limit_of(len(data))) + more != size:
            size = limit + more
            data = gzip.compress(start + bytes(size - len(start)), mtime=0)
        assert unpacks_by_gzip(data) is is_within
    for damaged in (data[:-9], data[:20] + b"\xff" * 20, b"{}"):
        assert unpacks_by_gzip(damaged)  # PyIceberg's error is better when it reads the file


def test_the_largest_read():
    most = 2**31 - 1
    assert received(BytesIO(b"all"), most) == b"all"
    for size in (-1, most + 1):
        with pytest.raises(ValueError, match=f"^{size} bytes exceed the limit of one read"):
            received(BytesIO(b"all"), size)


@pytest.mark.parametrize(
    "data", [b"no gzip", gzip.compress(b"{}", mtime=0)[:-9], gzip.compress(b"{}", mtime=0) + b"x"]
)
def test_damaged_compressed_metadata_is_left_to_pyiceberg(tmp_path, data):
    path = tmp_path / "v1.gz.metadata.json"
    file = GuardedFileIO({}).new_input(str(path))
    assert not file.exists()
    path.write_bytes(data)
    assert file.exists()
    assert len(file) == len(data)
    with file.open() as stream:
        assert stream.read() == data
