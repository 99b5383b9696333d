"""Options of s3fs and adlfs are converted to scan options that Hadoop reads."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from splitlib.spark.jvm.hadoop import HadoopFileSystem, scan_options

S3A = "org.apache.hadoop.fs.s3a"
ABFS = "org.apache.hadoop.fs.azurebfs"
HOST = "acc.dfs.core.windows.net"
AT = f"lake@{HOST}"
GIVEN = {"key": "k", "secret": "s"}
SIMPLE = {
    "access.key": "k",
    "secret.key": "s",
    "aws.credentials.provider": f"{S3A}.SimpleAWSCredentialsProvider",
}


def test_a_scan_without_settings_is_the_sessions():
    assert scan_options({}, [("s3a", "b")]) == {}
    assert scan_options({"s3": {"anon": False}, "abfss": {"anon": True}}, [("s3a", "b")]) == {}
    assert scan_options({"s3": GIVEN}, []) == {}
    assert scan_options({"s3": GIVEN}, [("hdfs", "h"), ("abfss", AT)]) == {}


def test_every_bucket_has_the_settings():
    options = scan_options({"s3": GIVEN}, [("s3a", "b.c"), ("s3", "d"), ("s3a", "b.c")])
    for bucket in ("b.c", "d"):
        found = {name: options[f"fs.s3a.bucket.{bucket}.{name}"] for name in SIMPLE}
        assert found == SIMPLE
    inner = options["fs.viewfs.mounttable.d.linkFallback"].removesuffix("://d/")
    assert options[f"fs.{inner}.impl"] == f"{S3A}.S3AFileSystem"
    assert options["fs.s3.impl.disable.cache"] == options["fs.s3a.impl.disable.cache"] == "true"


def test_scans_share_options_only_if_they_share_settings():
    roots = [("s3a", "b"), ("s3a", "c")]
    one, same = (scan_options({"s3": GIVEN}, at) for at in (roots, roots[::-1]))
    other = scan_options({"s3": GIVEN | {"secret": "x"}}, roots)
    name = "fs.viewfs.mounttable.b.linkFallback"
    assert one == same
    assert one[name] != other[name]


def test_containers_are_reached_as_securely_as_their_paths_say():
    options = scan_options({"abfss": {"account_key": "k=="}}, [("abfs", AT), ("abfss", f"p{AT}")])
    found = {}
    for container in (AT, f"p{AT}"):
        inner, _, rest = options[f"fs.viewfs.mounttable.{container}.linkFallback"].partition("://")
        assert rest == f"{container}/"
        found[container] = options[f"fs.{inner}.impl"].removeprefix(f"{ABFS}.")
    assert found == {AT: "AzureBlobFileSystem", f"p{AT}": "SecureAzureBlobFileSystem"}


def test_a_container_of_another_account_has_what_the_session_has():
    other = "lake@other.dfs.core.windows.net"
    given = {"abfss": {"account_name": "acc", "account_key": "k=="}}
    options = scan_options(given, [("abfss", AT), ("abfss", other)])
    inner = options[f"fs.viewfs.mounttable.{other}.linkFallback"].partition("://")[0]
    assert options[f"fs.{inner}.impl"] == f"{ABFS}.SecureAzureBlobFileSystem"
    assert inner not in options[f"fs.viewfs.mounttable.{AT}.linkFallback"]
    assert not any(name.endswith("other.dfs.core.windows.net") for name in options)


@pytest.mark.parametrize("directory", ["hdfs://nn/a/b", "hdfs://nn/a//b/", "hdfs:///a//b", "/a/b"])
def test_names_of_listed_files_start_with_the_requested_directory(monkeypatch, directory):
    columns = (["hdfs://nn/a/b/f"], ["1"], ["2000"], ["false"])
    for name in ("scala_of", "session_of", "hadoop_path"):
        monkeypatch.setattr(f"splitlib.spark.jvm.hadoop.{name}", MagicMock())
    monkeypatch.setattr("splitlib.spark.jvm.hadoop.texts", lambda *_: columns)
    (found,) = HadoopFileSystem(MagicMock()).ls(directory)
    assert found == {"name": f"{directory.rstrip('/')}/f", "size": 1, "type": "file", "mtime": 2.0}
