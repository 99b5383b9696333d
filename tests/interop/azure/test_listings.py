"""Directory listings on Azure return the same results with obstore and with adlfs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from azure.storage.blob import (
    ContainerSasPermissions,
    PublicAccess,
    generate_container_sas,
)
from obstore.store import AzureStore

import splitlib
from splitlib.storage import Storage
from tests.interop.azure.server import ACCOUNT, KEYS

HOST = f"{ACCOUNT}.dfs.core.windows.net"
NAMES = [
    "a b", "50%", "50%25", "k=1", "k=%2F", "ü", "ü/日本", "+", "a&b", "a'b", "#1", "_x", "_k=1",
    ".x", "x._COPYING_", "~", " lead", "(1)", "a;b", "a:b", "*", "[1]", "deep/er/still",
]  # fmt: skip
# The default value of adlfs. obstore does not support this option, so splitlib lists with adlfs.
UNFOLLOWED = {"location_mode": "primary"}
LISTERS = pytest.mark.parametrize("more", [{}, UNFOLLOWED], ids=["obstore", "adlfs"])
# adlfs finds no files in this directory.
TRAILING = "trailing "
EMPTY = ["none", "k=1/none"]
MARKED = ["marked", "k=1", "deep/er"]
PLACES = ["", *NAMES, "deep", "deep/er", "k=1/in", "marked", "none", "nothing", "nothing/at/all"]


@pytest.fixture(scope="module")
def lake(azurite, client):
    """Create the containers with test files. Return the connection string."""
    for name, access in (("lake", None), ("public", PublicAccess.CONTAINER)):
        container = client.create_container(name, public_access=access)
        for n, directory in enumerate(NAMES):
            container.upload_blob(f"t/{directory}/f {directory.replace('/', '')}", b"x" * (n + 1))
            container.upload_blob(f"t/{directory}/in/f", b"x")
            container.upload_blob(f"t/file {directory.replace('/', '')} ", b"x")
        for name_of_empty in EMPTY:
            container.upload_blob(f"t/{name_of_empty}", b"")
        # Hadoop writes such marker objects on accounts without real directories.
        for directory in MARKED:
            container.upload_blob(f"t/{directory}", b"", metadata={"hdi_isfolder": "true"})
    bare = client.create_container("bare")
    bare.upload_blob(f"t/{TRAILING}/f ", b"x")
    return azurite.connection()


def told(storage, location):
    """List a location. Return its non-empty files and its directories, or ``"missing"``."""
    try:
        level = storage.level(location)
    except splitlib.MissingPartition:
        return "missing"
    return [file for file in level.files if file.size], sorted(level.directories)


@pytest.mark.parametrize("scheme", ["abfss", "abfs", "wasbs", "az"])
@pytest.mark.parametrize("container", ["lake", f"lake@{HOST}"])
def test_each_directory_is_that_of_adlfs(lake, scheme, container):
    options = {"connection_string": lake}
    ours, theirs = Storage(options), Storage(options | UNFOLLOWED)
    places = [f"{scheme}://{container}/{f't/{place}'.rstrip('/')}" for place in PLACES]
    expected = [told(theirs, place) for place in places]
    assert [told(ours, place) for place in places] == expected
    assert "missing" in expected
    files, directories = expected[0]
    assert len(files) == sum(splitlib.storage.is_data(f"file {name} ") for name in NAMES)
    assert {"a b", "50%", "50%25", "ü", "k=1", "marked"} <= set(directories)


def test_all_that_is_below(lake):
    options = {"connection_string": lake}
    found = []
    for more in ({}, UNFOLLOWED):
        files, _ = Storage(options | more).list_files(["abfss://lake/t"], below=True)
        found.append(sorted(tuple(row.values()) for row in files.to_pylist() if row["size"]))
    assert found[0] == found[1]
    assert len(found[0]) > 2 * len(NAMES)


def test_obstore_lists_what_holds_files(lake, monkeypatch):
    monkeypatch.setattr(Storage, "filesystem", None)
    storage = Storage({"connection_string": lake})
    assert len(storage.level(f"abfss://lake@{HOST}/t/50%25").files) == 1
    files, requests = storage.list_files([f"abfss://lake/t/{name}" for name in ("a b", "50%", "ü")])
    assert (files["partition"].to_pylist(), requests) == ([0, 1, 2], 3)
    place = f"abfss://bare/t/{TRAILING}"
    assert [file.path for file in storage.level(place).files] == [f"{place}/f "]


def test_many_names(lake, client):
    container = client.get_container_client("bare")
    for n in range(5003):
        container.upload_blob(f"many/{n:05}", b"x")
    storage = Storage({"connection_string": lake})
    files, requests = storage.list_files(["abfss://bare/many"])
    assert (files.num_rows, requests) == (5003, 2)


def test_a_signature(lake, azurite, monkeypatch):
    monkeypatch.setattr(Storage, "filesystem", None)
    signature = generate_container_sas(
        ACCOUNT,
        "lake",
        account_key=KEYS[1],
        permission=ContainerSasPermissions(list=True, read=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    at = f"AccountName={ACCOUNT};BlobEndpoint={azurite.endpoint}"
    signed = Storage({"connection_string": f"{at};SharedAccessSignature={signature}"})
    assert signed.level("abfss://lake/t/ü", retries=True).directories == ["in", "日本"]
    broken = Storage({"connection_string": f"{at};SharedAccessSignature={signature[:-9]}AAAA%3D"})
    with pytest.raises(splitlib.AccessDenied) as refused:
        broken.level("abfss://lake/t/ü", retries=True)
    assert signature[-40:-9] not in str(refused.value)


def test_nobody_asks(lake, azurite, monkeypatch):
    monkeypatch.setattr(
        "obstore.store.AzureStore",
        lambda *a, **more: AzureStore(*a, **more | {"endpoint": azurite.endpoint}),
    )
    monkeypatch.setattr(Storage, "filesystem", None)
    storage = Storage({"account_name": ACCOUNT, "anon": True})
    assert storage.level("abfss://public/t/ü", retries=True).directories == ["in", "日本"]
    with pytest.raises(splitlib.AccessDenied):
        storage.level("abfss://lake/t/ü", retries=True)


@LISTERS
def test_what_is_not_there(lake, more):
    storage = Storage({"connection_string": lake, **more})
    with pytest.raises(splitlib.SourceError, match=r"no bucket .*puddle"):
        storage.list_files(["abfss://puddle/t"])
    files, requests = storage.list_files(["abfss://lake/t/nothing"])
    assert (files.num_rows, requests) == (0, 1)


def test_the_wrong_key(lake, azurite):
    wrong = azurite.connection("AAAA")
    with pytest.raises(splitlib.AccessDenied):
        Storage({"connection_string": wrong}).level("abfss://lake/t")
    with pytest.raises(splitlib.AccessDenied):
        splitlib.load_table("abfss://lake/t", "files", storage_options={"connection_string": wrong})


@LISTERS
def test_a_table(lake, client, more):
    container = client.get_container_client("bare")
    for k in range(20):
        container.upload_blob(f"table/k={k}/f", b"x", overwrite=True)
        mark = {"hdi_isfolder": "true"}
        container.upload_blob(f"table/k={k}", b"", metadata=mark, overwrite=True)
    location = f"abfss://bare@{HOST}/table"
    table = splitlib.load_table(
        location,
        "files",
        partition_schema="k int",
        schema="a int",
        storage_options={"connection_string": lake, **more},
    )
    enumerator = splitlib.DynamicFileEnumerator(table)
    keys = pa.table({"k": pa.array([3, 5, 50], pa.int32())})
    enumerator.set_dynamic_filtering_data(splitlib.DynamicFilteringData.from_arrow(keys))
    paths = [p for one in enumerator.select_files() for p in one.files.files["path"].to_pylist()]
    assert sorted(paths) == [f"{location}/k=3/f", f"{location}/k=5/f"]
    # One request for the table, and one for each matching partition.
    assert enumerator.metrics.storage_requests == 3
