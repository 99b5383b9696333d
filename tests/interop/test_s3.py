"""Spark reads tables on S3 with credentials that only splitlib received."""

from __future__ import annotations

import io
import json
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema
from pyiceberg.catalog import load_catalog

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.testing import HiveMetastore
from tests.integration.iceberg.lake import (
    delete_equal,
    delete_positions,
    delete_vector,
    with_id,
)
from tests.interop.s3.vending_catalog import vending_catalog
from tests.interop.shown import assert_not_shown
from tests.support.s3_server import S3Server
from tests.support.thrift_client import parquet_table, thrift_client

pytestmark = pytest.mark.spark

VENDED = {"key": "vended-quokka-key", "secret": "vended-quokka-secret", "token": "vended-quokka"}
GIVEN = {"key": "given-wombat-key", "secret": "given-wombat-secret"}
SECRETS = (*VENDED.values(), *GIVEN.values())


@pytest.fixture(scope="module")
def s3():
    with S3Server().running() as server:
        yield server


@pytest.fixture(scope="module")
def files(s3):
    """Create a Parquet table and a CSV table in each of two buckets."""
    objects = {}
    for k in range(3):
        rows = io.BytesIO()
        pq.write_table(pa.table({"a": [10 * k, 10 * k + 1]}), rows)
        objects[f"parquet/k={k}/f.parquet"] = rows.getvalue()
        objects[f"csv/k={k}/f.csv"] = f"a;b\n{k};x\n".encode()
    s3.fill("lake", objects)
    s3.fill("pond", objects)
    return "s3a://lake"


@pytest.fixture
def unknown(files):
    """Return the location of the same table in a bucket for which the session has no credentials.

    The bucket is separate, because Hadoop caches a bucket's filesystem with its first settings.
    """
    return files.replace("lake", "pond")


@pytest.fixture
def plain(spark, s3):
    """Give the session its own credentials during a test."""
    settings = {
        "access.key": "plain-bandicoot",
        "secret.key": "plain-bandicoot-secret",
        "endpoint": s3.endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
    }
    for name, value in settings.items():
        spark.conf.set(f"fs.s3a.{name}", value)
    yield spark
    for name in settings:
        spark.conf.unset(f"fs.s3a.{name}")


def scan(spark, s3, path, given=GIVEN, **more):
    options = {**given, "endpoint_url": s3.endpoint}
    reader = splitlib.read(spark).table(
        path, "files", storage_options=options, partition_schema="k int", **more
    )
    return reader.where("k > 0").load()


def test_rows_of_files_are_those_of_plain_spark(spark, s3, files, plain):
    for form, more in {
        "parquet": {},
        "csv": {
            "format": "csv",
            "schema": "a int, b string",
            "read_options": {"HEADER": "true", "Sep": ";"},
        },
    }.items():
        reader = plain.read.options(header="true", sep=";")
        if form == "csv":
            reader = reader.schema("a int, b string, k int")
        expected = reader.format(form).load(f"{files}/{form}").where("k > 0")
        columns = ("*", "_metadata.file_path")
        found = scan(spark, s3, f"{files}/{form}", **more)
        s3.forget()
        rows = found.select(*columns).collect()
        assert set(s3.keys) == {GIVEN["key"]}
        assert sorted(rows) == sorted(expected.select(*columns).collect())


def test_files_are_verified_with_their_credentials(spark, s3, files, unknown):
    reader = (
        splitlib.read(spark)
        .config(verify_files=True)
        .table(
            f"{unknown}/changing", "files", storage_options={**GIVEN, "endpoint_url": s3.endpoint}
        )
    )

    def write(*values):
        rows = io.BytesIO()
        pq.write_table(pa.table({"a": values}), rows)
        s3.fill("pond", {"changing/k=1/f.parquet": rows.getvalue()})

    write(1, 2)
    df = reader.load()
    s3.forget()
    assert df.count() == 2
    assert set(s3.keys) == {GIVEN["key"]}
    write(*range(1000))
    with pytest.raises(Exception, match=r"f\.parquet has changed since it was listed: its size"):
        df.count()
    assert reader.load().count() == 1000
    assert_not_shown(spark, df, SECRETS)


def test_scans_of_one_bucket_keep_their_credentials(spark, s3, files, plain):
    path = f"{files}/parquet"
    one, same, other = (scan(spark, s3, path, given) for given in (GIVEN, GIVEN, VENDED))
    for df, key in ((one, GIVEN["key"]), (other, VENDED["key"]), (one, GIVEN["key"])):
        s3.forget()
        assert df.count() == 4
        assert set(s3.keys) == {key}
    s3.forget()
    assert plain.read.parquet(path).count() == 6
    assert set(s3.keys) == {"plain-bandicoot"}
    assert one.sameSemantics(same)
    assert not one.sameSemantics(other)


def test_by_paths_files_are_read_as_the_session_reads_them(plain, s3, files):
    options = {**GIVEN, "endpoint_url": s3.endpoint}
    reader = splitlib.read(plain).table(
        f"{files}/parquet", "files", storage_options=options, partition_schema="k int"
    )
    said = "storage options do not reach Spark's tasks"
    assert said not in str(splitlib.explain(reader.load()))
    df = reader.config(spark_scan="paths").load()
    assert said in str(splitlib.explain(df))
    s3.forget()
    assert df.count() == 6
    assert set(s3.keys) == {"plain-bandicoot"}


def test_a_file_takes_no_file_system_of_its_own(spark, s3, unknown):
    scan(spark, s3, f"{unknown}/parquet").collect()
    threads = spark._jvm.java.lang.Thread
    counts = []
    for _ in range(8):
        scan(spark, s3, f"{unknown}/parquet").collect()
        names = [thread.getName() for thread in threads.getAllStackTraces().keySet()]
        counts.append(sum(name.startswith("sdk-ScheduledExecutor") for name in names))
    # One filesystem has at most five such threads.
    assert counts[-1] - counts[0] <= 5


def test_a_table_of_hive(spark, s3, files, plain, tmp_path):
    directories = [f"{files}/parquet/k={k}" for k in range(3)]
    with HiveMetastore(tmp_path) as metastore:
        with thrift_client(metastore) as client:
            column, key = (
                FieldSchema(name, kind) for name, kind in (("a", "bigint"), ("k", "int"))
            )
            client.create_table(parquet_table("t", column, [key]))
        metastore.bulk_add_partitions("default", "t", [("0",), ("1",), ("2",)], directories)
        options = {**GIVEN, "client_kwargs": {"endpoint_url": s3.endpoint}}
        reader = splitlib.read(spark).table(
            "default.t", "hive", uri=metastore.uri, storage_options=options
        )
        df = reader.where("k > 0").load()
    s3.forget()
    rows = df.collect()
    assert set(s3.keys) == {GIVEN["key"]}
    assert sorted(rows) == sorted(plain.read.parquet(f"{files}/parquet").where("k > 0").collect())
    assert_not_shown(spark, df, SECRETS)


@pytest.fixture
def vended(spark, s3, tmp_path):
    """Return a function that reads a new Iceberg table with its catalog's credentials."""

    def read(bucket, change=lambda table: None):
        s3.fill(bucket, {})
        given = {
            "s3.access-key-id": VENDED["key"],
            "s3.secret-access-key": VENDED["secret"],
            "s3.session-token": VENDED["token"],
            "s3.endpoint": s3.endpoint,
        }
        uri, warehouse = f"sqlite:///{tmp_path}/{bucket}.db", f"s3://{bucket}"
        with closing(
            load_catalog("written", type="sql", uri=uri, warehouse=warehouse, **given)
        ) as catalog:
            catalog.create_namespace("ns")
            rows = pa.table({"k": pa.array([1, 2, 3, 4], pa.int32()), "a": ["w", "x", "y", "z"]})
            table = catalog.create_table(
                "ns.t", schema=rows.schema, properties={"format-version": "2"}
            )
            table.append(rows)
            change(table)
            location = table.metadata_location
            metadata = json.loads(table.metadata.model_dump_json())
        with vending_catalog(location, metadata, given) as address:
            df = splitlib.read(spark).table("ns.t", "iceberg", type="rest", uri=address).load()
        s3.forget()
        return df

    return read


def test_iceberg_with_vended_credentials(spark, s3, vended):
    df = vended("iceberg")
    assert sorted(map(tuple, df.collect())) == [(1, "w"), (2, "x"), (3, "y"), (4, "z")]
    assert set(s3.keys) == {VENDED["key"]}
    assert_not_shown(spark, df, SECRETS)


def test_deletes_of_iceberg_with_vended_credentials(spark, s3, vended):
    def by_position(table):
        (task,) = table.scan().plan_files()
        delete_positions(table, {task.file.file_path: [0]})
        second = pa.table(
            [pa.array([2], pa.int32())], schema=pa.schema([with_id("k", pa.int32(), 1)])
        )
        delete_equal(table, second, [1])

    def by_vector(table):
        (task,) = table.scan().plan_files()
        delete_vector(table, task.file.file_path, [3])

    for bucket, change, left in (
        ("deletes", by_position, [(3, "y"), (4, "z")]),
        ("vectors", by_vector, [(1, "w"), (2, "x"), (3, "y")]),
    ):
        df = vended(bucket, change)
        assert sorted(map(tuple, df.collect())) == left
        assert set(s3.keys) == {VENDED["key"]}
        assert_not_shown(spark, df, SECRETS)


def test_credentials_are_not_shown(spark, s3, unknown):
    df = scan(spark, s3, f"{unknown}/parquet")
    df.join(df, "k").collect()
    df.cache().count()
    df.unpersist()
    assert_not_shown(spark, df, SECRETS)


@pytest.fixture(scope="module")
def many(s3):
    """Return objects for 40 days, each with one data file. Some days also have hidden files."""
    rows = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), rows)
    days = [f"many/k={k}" for k in range(40)]
    objects = {f"{day}/f.parquet": rows.getvalue() for day in days}
    hidden = ("_SUCCESS", ".part", "g.parquet._COPYING_", "below/h.parquet")
    objects |= {f"{days[k]}/{name}": b"not read" for k in (3, 30) for name in hidden}
    return objects | {"many/not-a-day/f.parquet": b"not read", "many/none": b"not read"}


@pytest.fixture
def table_of(spark, plain, s3, many):
    """Return a function that creates a session table in its own bucket.

    The files of some days may be missing.
    """
    names = []

    def made(bucket, without=(), more=()):
        s3.fill(bucket, many | dict(more))
        name = f"days_in_{bucket}"
        spark.sql(
            f"CREATE TABLE {name} (a BIGINT, k INT) USING parquet PARTITIONED BY (k)"
            f" LOCATION 's3a://{bucket}/many'"
        )
        names.append(name)
        days = (f"PARTITION (k={k}) LOCATION 's3a://{bucket}/many/k={k}'" for k in range(40))
        spark.sql(f"ALTER TABLE {name} ADD {' '.join(days)}")
        s3.remove(bucket, [f"many/k={k}/f.parquet" for k in without])
        spark.table(name)  # Spark lists the root once when it opens the table, so do that now
        s3.forget()
        return name

    yield made
    for name in names:
        spark.sql(f"DROP TABLE {name}")


def joined(table, days):
    return f"SELECT a, k FROM {table} JOIN (SELECT * FROM VALUES {days} AS d(d)) ON k = d"


DAYS = ", ".join(f"({k})" for k in range(0, 60, 2))


def test_days_of_the_session_come_in_pages(spark, s3, table_of):
    table = table_of("pages")
    df = splitlib.sql(spark, joined(table, DAYS))
    assert [listing["prefix"] for listing in s3.listings] == ["many/"]
    report = splitlib.explain(df)
    assert report.storage_requests == 1
    assert report.scans[0].files.matched == 20
    rows = sorted(df.collect())
    assert len(s3.listings) == 1
    assert rows == sorted((a, k) for a in (1, 2) for k in range(0, 40, 2))
    assert rows == sorted(spark.sql(joined(table, DAYS)).collect())


def test_days_of_several_pages(spark, s3, table_of):
    with changed(spark, {"fs.s3a.paging.maximum": "30"}):
        df = splitlib.sql(spark, joined(table_of("several"), DAYS))
        # The two pages cover all fifty files.
        assert [listing["prefix"] for listing in s3.listings] == ["many/", "many/"]
        assert splitlib.explain(df).storage_requests == 2
        assert len(df.collect()) == 40


def test_few_days_are_listed_one_by_one(spark, s3, table_of):
    df = splitlib.sql(spark, joined(table_of("few"), "(2), (30)"))
    assert {each["prefix"] for each in s3.listings[:2]} == {"many/k=2/", "many/k=30/"}
    assert splitlib.explain(df).storage_requests == 2
    assert len(df.collect()) == 4


def test_more_files_than_the_pages_tell_are_listed_day_by_day(spark, s3, table_of):
    others = {f"many/another/{i:02}": b"x" for i in range(90)}
    with changed(spark, {"fs.s3a.paging.maximum": "20"}):
        df = splitlib.sql(spark, joined(table_of("others", more=others), DAYS))
        listed = [each["prefix"] for each in s3.listings]
        assert len(df.collect()) == 40
    # Seven pages would be needed, so splitlib stops paging. One more request may be running then.
    assert listed.count("many/") <= 4
    assert splitlib.explain(df).storage_requests == 4 + 20
    assert len(set(listed)) == 1 + 20


def test_a_day_that_is_not_there_is_still_missed(spark, table_of):
    table = table_of("gone", without=[4])
    with pytest.raises(splitlib.MissingPartition, match="k=4"):
        splitlib.read(spark).table(table).where("k < 30").load()
