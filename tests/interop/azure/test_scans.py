"""Spark reads tables on Azure with credentials that only splitlib received.

Paths use the scheme ``abfs``, because the server supports only HTTP. For ``abfss``, Hadoop uses
another filesystem class.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from pyiceberg.catalog import load_catalog

import splitlib
from benchmarks.tpcds.settings import changed
from tests.interop.azure.server import ACCOUNT, KEYS
from tests.interop.s3.vending_catalog import vending_catalog
from tests.interop.shown import assert_not_shown

pytestmark = pytest.mark.spark

HOST = f"{ACCOUNT}.dfs.core.windows.net"
# Hadoop caches the filesystem of each container with its credentials. So tests in which the session
# has a key use the separate container ``own``.
PLAIN, OWN = "plain", "own"


@pytest.fixture(scope="module")
def files(azurite, client):
    """Create the same table in each container."""
    for name in (PLAIN, OWN):
        container = client.create_container(name)
        for k in range(3):
            rows = io.BytesIO()
            pq.write_table(pa.table({"a": [10 * k, 10 * k + 1]}), rows)
            container.upload_blob(f"t/k={k}/a b%20ü.parquet", rows.getvalue())
    return azurite


@pytest.fixture(autouse=True)
def session(spark, files):
    """Give the session the server's address but no credentials."""
    settings = {
        "fs.azure.abfs.endpoint": files.endpoint.removeprefix("http://").partition("/")[0],
        "fs.azure.always.use.https": "false",
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.io.retry.max.retries": "0",
        # Hadoop's other HTTP library fails without a TLS factory, even for HTTP.
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
    }
    with changed(spark, settings):
        yield spark


def place(container):
    return f"abfs://{container}@{HOST}/t"


def scan(spark, options, container=OWN):
    reader = splitlib.read(spark).table(
        place(container),
        "files",
        storage_options=options,
        schema="a bigint",
        partition_schema="k int",
    )
    return reader.where("k > 0").load()


def signature(container=OWN, **permissions):
    return generate_container_sas(
        ACCOUNT,
        container,
        account_key=KEYS[0],
        permission=ContainerSasPermissions(list=True, **permissions),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )


def signed(files, token):
    at = f"AccountName={ACCOUNT};BlobEndpoint={files.endpoint}"
    return {"connection_string": f"{at};SharedAccessSignature={token}"}


def test_rows_are_those_of_plain_spark(spark, files):
    found = scan(spark, {"connection_string": files.connection(KEYS[1])}, PLAIN)
    rows = found.select("*", "_metadata.file_path").collect()
    with changed(spark, {f"fs.azure.account.key.{HOST}": KEYS[0]}):
        expected = spark.read.parquet(place(PLAIN)).where("k > 0")
        assert sorted(rows) == sorted(expected.select("*", "_metadata.file_path").collect())
    assert len(rows) == 4


def test_scans_of_one_container_keep_their_credentials(spark, files):
    keyed = scan(spark, {"connection_string": files.connection(KEYS[1])})
    reading = scan(spark, signed(files, signature(read=True)))
    listing = scan(spark, signed(files, signature()))
    assert keyed.count() == 4
    for _ in range(2):
        # The signature allows listing but not reading, so only the scan itself fails.
        with pytest.raises(Exception, match="not authorized to perform this operation"):
            listing.collect()
        assert reading.count() == keyed.count() == 4
    # Without splitlib's credentials, the session cannot read the files.
    with pytest.raises(Exception, match=r"fs\.azure\.account\.key"):
        spark.read.parquet(place(OWN))
    same = scan(spark, {"connection_string": files.connection(KEYS[1])})
    assert keyed.sameSemantics(same)
    assert not keyed.sameSemantics(reading)


def test_what_a_session_has_set_for_the_account_does_not_win(spark, files):
    settings = {
        f"fs.azure.account.auth.type.{HOST}": "OAuth",
        f"fs.azure.account.keyprovider.{HOST}": "com.example.NoSuchClass",
        f"fs.azure.account.key.{HOST}": "AAAA",
        f"fs.azure.account.key.{OWN}.{HOST}": "AAAA",
        f"fs.azure.sas.fixed.token.{HOST}": "sv=1&sig=x",
        f"fs.azure.sas.fixed.token.{OWN}.{HOST}": "sv=1&sig=x",
    }
    with changed(spark, settings):
        # Hadoop reuses filesystems with equal credentials. This signature is unique.
        token = signature(read=True, tag=True)
        for options in (signed(files, token), {"connection_string": files.connection(KEYS[0])}):
            assert scan(spark, options).count() == 4


def test_files_are_compared_with_these_credentials(spark, files, client):
    blob = client.create_container("changed").get_blob_client("t/k=1/f.parquet")
    rows = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), rows)
    blob.upload_blob(rows.getvalue())
    reader = splitlib.read(spark).table(
        place("changed"),
        "files",
        storage_options={"connection_string": files.connection(KEYS[1])},
        schema="a bigint",
        partition_schema="k int",
    )
    same, changed = (reader.config(verify_files=True).load() for _ in range(2))
    assert same.collect() == [(1, 1)]
    blob.upload_blob(rows.getvalue() + b" ", overwrite=True)
    with pytest.raises(Exception, match="size"):
        changed.collect()


def test_a_file_takes_no_file_system_of_its_own(spark, files):
    options = {"connection_string": files.connection(KEYS[1])}
    scan(spark, options).collect()
    threads = spark._jvm.java.lang.Thread
    counts = []
    for _ in range(8):
        scan(spark, options).collect()
        names = [thread.getName() for thread in threads.getAllStackTraces().keySet()]
        counts.append(sum(name.startswith("pool-") for name in names))
    # Hadoop starts threads for each new filesystem and never stops them.
    assert counts[-1] - counts[0] <= 5


def test_iceberg_with_vended_credentials(spark, files, client, tmp_path):
    client.create_container("iceberg")
    vended = signature("iceberg", read=True)
    written = load_catalog(
        "written",
        type="sql",
        uri=f"sqlite:///{tmp_path}/c.db",
        warehouse=f"abfs://iceberg@{HOST}/w",
        **{"adls.connection-string": files.connection()},
    )
    written.create_namespace("ns")
    rows = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "a": ["x", "y", "z"]})
    table = written.create_table("ns.t", schema=rows.schema)
    table.append(rows)
    location = table.metadata_location
    metadata = json.loads(table.metadata.model_dump_json())
    written.close()
    given = {"adls.connection-string": signed(files, vended)["connection_string"]}
    with vending_catalog(location, metadata, given) as address:
        df = splitlib.read(spark).table("ns.t", "iceberg", type="rest", uri=address).load()
    found = [row.asDict() for row in df.collect()]
    assert sorted(found, key=str) == sorted(rows.to_pylist(), key=str)
    assert_not_shown(spark, df, [vended, vended.rpartition("sig=")[2]])


def test_credentials_are_not_shown(spark, files):
    token = signature(read=True)
    for options in ({"connection_string": files.connection(KEYS[1])}, signed(files, token)):
        df = scan(spark, options)
        df.join(df, "k").collect()
        df.cache().count()
        df.unpersist()
        assert_not_shown(spark, df, [KEYS[1], token, token.rpartition("sig=")[2]])
