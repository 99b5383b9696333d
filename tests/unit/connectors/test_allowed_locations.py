"""With ``allowed_locations``, no location outside of them is listed, read or returned."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Partition
from pyiceberg.manifest import DataFileContent

import splitlib
from splitlib import (
    DynamicFileEnumerator,
    DynamicFileSplitEnumerator,
    LocationNotAllowed,
    SplitConfig,
)
from splitlib.coordination.checkpoint import decode, encode
from splitlib.model import DeleteFile
from splitlib_iceberg import metadata_cache
from tests.support.coordinators import read_all, take
from tests.support.iceberg_tables import (
    add_deletes,
    append,
    catalog_options,
    create,
    data_file,
    delete_file,
    make_catalog,
    open_table,
    partition_of,
)
from tests.unit.connectors.hive.fake_metastore import (
    FakeMetastore,
    descriptor,
    served,
    table_of,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE


def within(*locations) -> SplitConfig:
    return SplitConfig(allowed_locations=tuple(map(str, locations)))


def keys(*values):
    return splitlib.DynamicFilteringData.from_arrow(pa.table({"k": list(values)}))


@pytest.fixture
def root(tmp_path):
    """Create a table with two partitions. One of them is a link to a directory elsewhere."""
    for place in ("table/k=1", "elsewhere"):
        (tmp_path / place).mkdir(parents=True)
        pq.write_table(pa.table({"v": [1]}), tmp_path / place / "f.parquet")
    (tmp_path / "table" / "k=2").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "table"


def test_a_directory_outside_is_not_opened(root):
    with pytest.raises(LocationNotAllowed, match="elsewhere") as caught:
        splitlib.load_table(
            f"{root}/../elsewhere", "files", config=within(root), partition_schema="k int"
        )
    assert caught.value.connector == "files"


def test_links_are_refused_where_they_matter(root):
    with splitlib.load_table(str(root), "files", config=within(root)) as table:
        assert splitlib.paths(table, keys(1)) == [f"{root}/k=1/f.parquet"]
        with pytest.raises(LocationNotAllowed, match="k=2"):
            splitlib.paths(table)


def test_a_linked_file(root):
    (root / "k=2").unlink()
    (root / "k=1" / "g.parquet").symlink_to(root.parent / "elsewhere" / "f.parquet")
    with (
        splitlib.load_table(str(root), "files", config=within(root)) as table,
        pytest.raises(LocationNotAllowed, match=r"g\.parquet"),
    ):
        splitlib.paths(table)


def test_the_settings_of_an_enumeration_count_too(root):
    everywhere = within(root, root.parent / "elsewhere")
    with splitlib.load_table(str(root), "files", config=everywhere) as table:
        assert len(splitlib.paths(table, config=SplitConfig())) == 2
        with pytest.raises(LocationNotAllowed, match="k=2"):
            splitlib.paths(table, config=within(root))
        with pytest.raises(LocationNotAllowed):
            splitlib.paths(table, config=within("/nowhere"))


def test_the_environment_restricts(root, monkeypatch):
    monkeypatch.setenv("SPLITLIB_ALLOWED_LOCATIONS", "s3://somewhere/else,/nowhere")
    with pytest.raises(LocationNotAllowed, match="allowed: s3://somewhere/else, /nowhere"):
        splitlib.load_table(str(root), "files")


def test_a_checkpoint_does_not_bring_in_others(root):
    with splitlib.load_table(str(root), "files", config=SplitConfig()) as table:
        with DynamicFileSplitEnumerator(DynamicFileEnumerator(table)) as before:
            before.register_reader("r")
            take(before)
            state = before.snapshot_state()
        with pytest.raises(LocationNotAllowed, match=r"k=2|k=1"):
            DynamicFileSplitEnumerator.restore(state, DynamicFileEnumerator(table, within("/no")))
        allowed = within(root, root.parent / "elsewhere")
        enumerator = DynamicFileEnumerator(table, allowed)
        with DynamicFileSplitEnumerator.restore(state, enumerator) as after:
            after.register_reader("r")
            assert len(read_all(after)) == 2
        # A delete file in a checkpoint is a location, too.
        checkpoint = decode(state, enumerator.identity(), table.metadata)
        (first, *_) = checkpoint.splits
        deletes = (DeleteFile("position", "/not/allowed", 9, "parquet"),)
        tracked = first._replace(split=replace(first.split, deletes=deletes))
        state = encode(replace(checkpoint, splits=[tracked]))
        with pytest.raises(LocationNotAllowed, match="/not/allowed"):
            DynamicFileSplitEnumerator.restore(state, DynamicFileEnumerator(table, allowed))


def test_a_partition_of_a_metastore(root):
    metastore = FakeMetastore()
    metastore.tables["d", "t"] = table_of(str(root), "k")
    metastore.partitions["d", "t"] = {
        f"k={k}": Partition(values=[k], sd=descriptor(str(place)), parameters={})
        for k, place in (("1", root / "k=1"), ("2", root.parent / "elsewhere"))
    }
    with served(metastore) as server:
        with splitlib.load_table("d.t", "hive", uri=server.uri, config=within(root)) as table:
            assert len(splitlib.paths(table, keys("1"))) == 1
            with pytest.raises(LocationNotAllowed, match="elsewhere"):
                splitlib.paths(table, keys("2"))
        with pytest.raises(LocationNotAllowed, match="table"):
            splitlib.load_table("d.t", "hive", uri=server.uri, config=within("/nowhere"))


@pytest.fixture
def lake(tmp_path):
    metadata_cache.shared.clear()
    made = make_catalog(tmp_path / "lake")
    yield made
    made.close()


def iceberg_paths(lake, table, config):
    with open_table(lake, table, config=config) as opened:
        selected = DynamicFileEnumerator(opened, config).select_files()
        return [path for s in selected for path in s.files.files["path"].to_pylist()]


def test_a_data_file_of_iceberg(lake, tmp_path):
    table = create(lake, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    assert len(iceberg_paths(lake, table, within(tmp_path / "lake"))) == 1
    append(table, [data_file(table, [{"d": 2}], file_path=f"file://{tmp_path}/else/f.parquet")])
    with pytest.raises(LocationNotAllowed, match=r"else/f\.parquet"):
        iceberg_paths(lake, table, within(tmp_path / "lake"))


def test_a_delete_file_of_iceberg(lake, tmp_path):
    table = create(lake, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    add_deletes(
        table,
        delete_file(
            table,
            partition_of(table, {"d": 1}),
            DataFileContent.POSITION_DELETES,
            file_path=f"file://{tmp_path}/else/deletes.parquet",
        ),
    )
    with pytest.raises(LocationNotAllowed, match=r"else/deletes\.parquet"):
        iceberg_paths(lake, table, within(tmp_path / "lake"))


def test_metadata_of_iceberg(lake, tmp_path):
    """The locations of metadata and manifests are checked too. They may be apart from the data."""
    table = create(lake, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    name, options = ".".join(table.name()), catalog_options(tmp_path / "lake")
    with pytest.raises(LocationNotAllowed, match=r"metadata\.json"):
        splitlib.load_table(name, "iceberg", config=within(f"{tmp_path}/no"), **options)
    with splitlib.load_table(name, "iceberg", config=SplitConfig(), **options) as opened:
        with pytest.raises(LocationNotAllowed):
            list(opened.list_partitions(DynamicFileEnumerator(opened).predicate, within("/no")))
        metadata_cache.shared.clear()
    config = within(tmp_path / "lake")
    with splitlib.load_table(name, "iceberg", config=config, **options) as opened:
        assert len(splitlib.paths(opened)) == 1


def test_metadata_of_iceberg_elsewhere(lake, tmp_path):
    """Neither the metadata file nor a manifest is opened, although the table itself is allowed."""
    place = {"write.metadata.path": f"file://{tmp_path}/else"}
    table = create(lake, SIMPLE, BY_D, place)
    append(table, [data_file(table, [{"d": 1}])])
    name, config = ".".join(table.name()), within(tmp_path / "lake")
    with pytest.raises(LocationNotAllowed, match=r"else/.*metadata\.json"):
        open_table(lake, table, config=config)
    with open_table(lake, table, config=SplitConfig()) as opened:
        (tmp_path / "else").rename(tmp_path / "gone")  # opening a file would be another error
        metadata_cache.shared.clear()
        with pytest.raises(LocationNotAllowed, match=r"else/.*\.avro"):
            list(opened.list_partitions(DynamicFileEnumerator(opened).predicate, config))
    options = catalog_options(tmp_path / "lake")
    with pytest.raises(LocationNotAllowed, match=r"else/.*metadata\.json"):
        splitlib.load_table(name, "iceberg", config=config, **options)
