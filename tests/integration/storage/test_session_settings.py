"""splitlib's storage clients use the Hadoop settings of the Spark session, such as S3 keys."""

from __future__ import annotations

import pytest

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.session import storage_options_of
from splitlib.storage import Storage
from splitlib.storage.filesystems import Filesystems
from splitlib.storage.locations import located

pytestmark = pytest.mark.spark

S3A = "org.apache.hadoop.fs.s3a"
GIVEN = {
    "fs.s3a.access.key": "key-of-the-session",
    "fs.s3a.secret.key": "secret-of-the-session",
    "fs.s3a.endpoint.region": "us-east-1",
    "fs.s3a.path.style.access": "true",
}


@pytest.fixture
def session(spark, s3):
    settings = GIVEN | {"fs.s3a.endpoint": s3.endpoint}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


def test_a_table_on_s3_needs_no_options(session, s3):
    s3.fill("told", {"t/k=1/f": b"x", "t/k=2/f": b"x"})
    with splitlib.load_table(
        "s3a://told/t", connector="files", spark=session, schema="a int"
    ) as table:
        splits = list(splitlib.DynamicFileEnumerator(table).enumerate_splits())
    assert [split.path for split in splits] == ["s3a://told/t/k=1/f", "s3a://told/t/k=2/f"]
    with pytest.raises(splitlib.SplitlibError) as refused:  # The directory does not exist.
        splitlib.read(session).table("s3a://told/none", connector="files").load()
    assert "secret-of-the-session" not in str(refused.value)


def test_options_that_are_given_win(session):
    options = {"storage_options": {"anon": True, "endpoint_url": "http://127.0.0.1:1"}}
    with pytest.raises(splitlib.SourceUnavailable, match=r"127\.0\.0\.1:1/"):
        splitlib.load_table(
            "s3a://told/t",
            connector="files",
            spark=session,
            config=splitlib.SplitConfig(retry_attempts=1),
            **options,
        )


def test_they_are_for_s3_alone(session, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    options = storage_options_of(session)
    assert set(options) == {"s3"}
    assert len(Storage(options).level(str(tmp_path)).files) == 1


def test_of_azure_and_google_as_well(spark):
    settings = {
        "fs.azure.account.key.lakehouse.dfs.core.windows.net": "key-of-the-lakehouse",
        "fs.gs.auth.service.account.json.keyfile": "/keys/of-the-session.json",
    }
    with changed(spark, settings):
        assert storage_options_of(spark) == {
            "abfss://lakehouse": {"account_key": "key-of-the-lakehouse"},
            "gs": {"token": "/keys/of-the-session.json"},
        }


def test_accounts_of_azure_have_options_of_their_own(spark):
    settings = {
        "fs.azure.account.key.one.dfs.core.windows.net": "key-of-one",
        "fs.azure.account.key.two.blob.core.windows.net": "key-of-two",
        "fs.azure.sas.fixed.token": "sv=1",
    }
    with changed(spark, settings):
        options = storage_options_of(spark)
    assert options == {
        "abfss": {"sas_token": "sv=1"},
        "abfss://one": {"account_key": "key-of-one"},
        "abfss://two": {"account_key": "key-of-two"},
    }
    filesystems = Filesystems(options)
    for location, group in {
        "abfss://c@one.dfs.core.windows.net/t": "abfss://one",
        "wasbs://c@two.blob.core.windows.net/t": "abfss://two",
        "abfs://c@three.dfs.core.windows.net/t": "abfss",
    }.items():
        assert filesystems.group_of(located(location)) == group


def test_buckets_have_options_of_their_own(session, s3):
    s3.fill("general", {"t/k=1/f": b"x"})
    s3.fill("own.bucket", {"t/k=1/f": b"x", "t/k=2/f": b"x"})
    own = {
        "fs.s3a.bucket.own.bucket.access.key": "key-of-the-bucket",
        "fs.s3a.bucket.own.bucket.secret.key": "secret-of-the-bucket",
        "fs.s3a.bucket.public.aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider",
    }
    with changed(session, own):
        options = storage_options_of(session)
        for bucket, key in (("general", GIVEN["fs.s3a.access.key"]), ("own.bucket", None)):
            s3.forget()
            with splitlib.load_table(
                f"s3a://{bucket}/t", connector="files", spark=session, schema="a int"
            ) as table:
                assert list(splitlib.DynamicFileEnumerator(table).enumerate_splits())
            assert set(s3.keys) == {key or "key-of-the-bucket"}
        # One table can have partitions in buckets with different credentials.
        files, _ = Storage(options).list_files(
            ["s3a://own.bucket/t/k=1", "s3a://general/t/k=1", "s3a://own.bucket/t/k=2"]
        )
    assert files["path"].to_pylist() == [
        "s3a://own.bucket/t/k=1/f",
        "s3a://general/t/k=1/f",
        "s3a://own.bucket/t/k=2/f",
    ]
    assert options["s3://own.bucket"]["endpoint_url"] == s3.endpoint
    assert options["s3://public"]["anon"] is True
    assert "key" not in options["s3://public"]


def test_without_a_jvm_the_settings_are_those_of_spark(session, monkeypatch):
    classic = storage_options_of(session)
    monkeypatch.setattr("splitlib.spark.session.internals_unavailable", lambda _: "no JVM")
    more = {
        "spark.hadoop.fs.s3a.requester.pays.enabled": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "overridden",
    }
    with changed(session, more):
        options = storage_options_of(session)
    assert options == {"s3": {**classic["s3"], "requester_pays": True}}
    assert options.filesystem is None


def test_without_settings_clients_look_for_themselves(spark):
    assert storage_options_of(spark) == {}
