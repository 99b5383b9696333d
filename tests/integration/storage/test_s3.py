"""Tables on S3: all files are found, with few listing requests. The test server counts them."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData, SourceError, TableNotFound
from splitlib.storage import Storage
from splitlib.testing import HiveMetastore
from splitlib_hive.client import MetastoreClient
from tests.documents.examples import blocks
from tests.support.s3_server import S3Server
from tests.support.thrift_client import parquet_table, thrift_client

PARTITIONS, FILES = 900, 2
NAMES = ["k=a%2Fb", "k=a b", "k=ü", "k=a#b", "k=a?b", "k=*", "k=a+b", "k=%", "k=a:b", "k='x'"]


@pytest.fixture(scope="module")
def lake(s3: S3Server) -> S3Server:
    """Return the server. Its bucket ``lake`` has a table of 900 partitions, and unusual names."""
    objects = {
        f"t/k={k:04d}/part-{n}.parquet": b"x" * 10 for k in range(PARTITIONS) for n in range(FILES)
    }
    objects |= {f"names/{name}/f é.parquet": b"x" for name in NAMES}
    objects |= {"marked/": b"", "marked/k=1/": b"", "marked/k=1/f": b"x", "marked/k=2/": b""}
    objects |= {"slashes//k=1/f": b"x", "below/k=1/sub/f": b"x", "below/k=1/_x/f": b"x"}
    s3.fill("lake", objects)
    # The first listing makes one more request, to find out where a page of the store may end.
    Storage(s3.options).level("s3://lake", retries=True)
    s3.forget()
    return s3


def selected(table: splitlib.Table, keys: Iterable[int]) -> tuple[int, DynamicFileEnumerator]:
    enumerator = DynamicFileEnumerator(table)
    texts = pa.table({"k": [f"{k:04d}" for k in keys]})
    enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_arrow(texts))
    return sum(len(s.files) for s in enumerator.select_files()), enumerator


def of_metastore(
    metastore: HiveMetastore, lake: S3Server, name: str, **options: Any
) -> splitlib.Table:
    return splitlib.load_table(
        name, connector="hive", uri=metastore.uri, storage_options=lake.options, **options
    )


@pytest.fixture
def create(metastore, monkeypatch):
    """Return a function that creates metastore tables with partitions on S3.

    The metastore cannot reach S3 and rejects a table location there. So the location is replaced
    when splitlib's client receives the table.
    """
    told = MetastoreClient.get_table

    def moved(self, database, table):
        found = told(self, database, table)
        found.sd.location = "s3a://lake/t"
        return found

    monkeypatch.setattr(MetastoreClient, "get_table", moved)
    return partial(_create, metastore)


def _create(metastore: HiveMetastore, name: str, values: Sequence[str]) -> None:
    table = parquet_table(name, FieldSchema("a", "int", ""), [FieldSchema("k", "string", "")])
    with thrift_client(metastore) as client:
        client.create_table(table)
    locations = [f"s3a://lake/t/k={value}" for value in values]
    metastore.bulk_add_partitions("default", name, [(value,) for value in values], locations)


def least(keys: list[int]) -> int:
    """Return the minimum number of listing pages that contain all files of the partitions.

    A page has 1,000 files, and thus 500 adjacent partitions.
    """
    pages, reached = 0, -1
    for key in keys:
        if key > reached:
            pages, reached = pages + 1, key + 1000 // FILES - 1
    return pages


@pytest.mark.parametrize(
    ("keys", "more"),
    [
        (range(0, PARTITIONS, 300), 1),
        (range(100, 110), 0),
        (range(100, 400), 1),
        (range(0, PARTITIONS, 33), 2),
        ([k for k in range(PARTITIONS) if k % 50], 2),
        (range(PARTITIONS), 2),
    ],
    ids=["few", "neighbours", "many neighbours", "scattered", "most", "all"],
)
def test_hardly_more_requests_than_s3_permits(lake, keys, more):
    with splitlib.load_table(
        "s3a://lake/t",
        connector="files",
        partition_schema="k string",
        schema="a int",
        storage_options=lake.options,
    ) as table:
        lake.forget()
        found, enumerator = selected(table, keys)
    assert found == FILES * len(keys)
    metrics = enumerator.metrics
    # One request lists the partitions, and the others list files. Up to ``more`` extra requests are
    # needed to learn how many files a partition has.
    assert len(lake.listings) <= 1 + least(list(keys)) + more
    assert (metrics.storage_requests, lake.others) == (len(lake.listings), 0)
    assert metrics.files_listed == found


def test_the_metastores_statistics_tell_how_many_partitions_to_list_together(
    lake, metastore, create, monkeypatch
):
    name = "s3_counted"
    create(name, [f"{k:04d}" for k in range(PARTITIONS)])
    told = MetastoreClient.get_partitions_by_names

    def with_statistics(*arguments):
        found = told(*arguments)
        # Many engines store this statistic, but not for all partitions.
        for partition in found[:3]:
            partition.parameters["numFiles"] = "2"
        return found

    monkeypatch.setattr(MetastoreClient, "get_partitions_by_names", with_statistics)
    # So many partitions cannot be requested by name. All names are listed instead, and show which
    # partitions are adjacent.
    with of_metastore(metastore, lake, name, partitions_per_request=200) as table:
        lake.forget()
        found, enumerator = selected(table, range(300))
    assert found == 600
    assert len(lake.listings) == 1
    assert any(
        "neighbouring partitions were listed together" in note
        for note in enumerator.explain().notes
    )


@pytest.mark.parametrize(
    "keys",
    [range(300), range(0, PARTITIONS, 3), range(0, PARTITIONS, 100), [0, 1, 899], [5]],
    ids=["neighbours", "scattered", "far apart", "two places", "one"],
)
def test_partitions_by_name_take_no_more_pages_than_others(lake, metastore, create, keys):
    """Partitions requested by name need the minimum number of listing pages.

    The first page shows how many partitions there are between the requested ones.
    """
    name = f"s3_named_{len(keys)}_{max(keys)}"
    create(name, [f"{k:04d}" for k in range(PARTITIONS)])
    with of_metastore(metastore, lake, name) as table:
        lake.forget()
        found, enumerator = selected(table, keys)
    assert found == FILES * len(keys)
    assert enumerator.metrics.metastore_requests == 1
    assert len(lake.listings) == enumerator.metrics.storage_requests == least(list(keys))


def test_a_partition_without_objects_has_no_rows(lake, metastore, create):
    create("s3_gone", ["0001", "gone", "0002"])
    with of_metastore(metastore, lake, "s3_gone") as table:
        everything = DynamicFileEnumerator(table)
        assert sum(len(s.files) for s in everything.select_files()) == 2 * FILES
        alone = DynamicFileEnumerator(table)
        gone = pa.table({"k": ["gone"]})
        alone.set_dynamic_filtering_data(DynamicFilteringData.from_arrow(gone))
        lake.forget()
        assert not list(alone.enumerate_splits())
        assert len(lake.listings) == 1


@pytest.mark.parametrize("lister", ["pages", "s3fs"])
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_both_listers_find_the_same(lake, lister, scheme):
    storage = Storage(lake.options | ({} if lister == "pages" else UNFOLLOWED))
    assert storage.files_per_page("s3://lake/t") == (1000 if lister == "pages" else 0)
    root = f"{scheme}://lake"
    assert storage.level(f"{root}/names", retries=True).directories == sorted(NAMES)
    files, _ = storage.list_files([f"{root}/names/{name}" for name in NAMES])
    found = {f["path"]: f["partition"] for f in files.to_pylist()}
    assert found == {f"{root}/names/{name}/f é.parquet": row for row, name in enumerate(NAMES)}
    files, _ = storage.list_files([f"{root}/marked/k={k}" for k in (1, 2, 3)])
    assert files.to_pylist()[0]["path"] == f"{root}/marked/k=1/f"
    assert [f["size"] for f in files.to_pylist()] == [1]
    assert abs(files["modified"][0].as_py() / 1000 - lake.filled_at) < 60
    assert [f.path for f in storage.level(f"{root}/slashes//k=1").files] == [
        f"{root}/slashes//k=1/f"
    ]
    for locations in ([f"{root}/below/k=1"], [f"{root}/below/k=1", f"{root}/t/k=0001"]):
        below, _ = storage.list_files(locations, below=True)
        assert f"{root}/below/k=1/sub/f" in below["path"].to_pylist()
        assert not [path for path in below["path"].to_pylist() if "_x" in path]
        direct, _ = storage.list_files(locations)
        assert not [path for path in direct["path"].to_pylist() if "below" in path]
    for locations in (["missing/t/k=1"], ["missing/t/k=1", "missing/t/k=2"], ["missing/t//k=1"]):
        with pytest.raises(SourceError, match="no bucket"):
            storage.list_files([f"{scheme}://{location}" for location in locations])


UNFOLLOWED: dict[str, object] = {"s3_additional_kwargs": {}}


def test_a_table_that_is_not_there(lake):
    with pytest.raises(TableNotFound):
        splitlib.load_table("s3://lake/none", connector="files", storage_options=lake.options)


def test_a_process_ends_while_a_listing_hangs():
    script = """
        import socket, sys, time
        from splitlib.remote.calls import Workers
        from splitlib.storage import Storage

        silent = socket.create_server(("127.0.0.1", 0))
        options = {"key": "k", "secret": "s",
                   "endpoint_url": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        workers = Workers(2, "splitlib-list")
        workers.submit(lambda: Storage(options).level("s3://lake/t").files)
        silent.accept()  # now it waits for an answer
        print("ends")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        check=False,
        capture_output=True,
        timeout=60,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


def test_the_example_of_the_guide(s3, capsys):
    file = pa.BufferOutputStream()
    pq.write_table(pa.table({"v": [1]}), file)
    content = file.getvalue().to_pybytes()
    s3.fill("bucket", {f"sales/day={day}/part.parquet": content for day in range(1, 5)})
    example = blocks("docs/guides/storage.md", "py")[1]
    example, count = re.subn(r"storage_options={.*}", f"storage_options={s3.options}", example)
    assert count == 1
    exec(example, {"splitlib": splitlib})
    assert capsys.readouterr().out == "['s3://bucket/sales/day=3/part.parquet']\n"
