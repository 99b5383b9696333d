"""Options of s3fs as options of a scan that Hadoop reads."""

from __future__ import annotations

import pytest

from splitlib.spark.jvm.hadoop_options import s3a_settings, scan_options

S3A = "org.apache.hadoop.fs.s3a"
SIMPLE = {
    "access.key": "k",
    "secret.key": "s",
    "aws.credentials.provider": f"{S3A}.SimpleAWSCredentialsProvider",
}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {}),
        ({"use_listings_cache": False, "anon": False, "profile": "p"}, {}),
        ({"key": "k"}, {}),
        ({"key": "k", "secret": "s"}, SIMPLE),
        ({"username": "k", "password": "s"}, SIMPLE),
        ({"client_kwargs": {"aws_access_key_id": "k", "aws_secret_access_key": "s"}}, SIMPLE),
        ({"key": "k", "secret": "s", "client_kwargs": {"aws_access_key_id": "x"}}, SIMPLE),
        (
            {"key": "k", "secret": "s", "token": "t"},
            SIMPLE
            | {
                "session.token": "t",
                "aws.credentials.provider": f"{S3A}.TemporaryAWSCredentialsProvider",
            },
        ),
        (
            {"anon": "true", "key": "k", "secret": "s"},
            {"aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider"},
        ),
        (
            {"client_kwargs": {"endpoint_url": "http://minio:9000"}},
            {
                "endpoint": "http://minio:9000",
                "connection.ssl.enabled": "false",
                "endpoint.region": "us-east-1",
                "path.style.access": "true",
            },
        ),
        (
            {
                "endpoint_url": "https://store",
                "client_kwargs": {"region_name": "eu-west-1"},
                "config_kwargs": {"s3": {"addressing_style": "virtual"}},
            },
            {
                "endpoint": "https://store",
                "connection.ssl.enabled": "true",
                "endpoint.region": "eu-west-1",
                "path.style.access": "false",
            },
        ),
        ({"use_ssl": False}, {"connection.ssl.enabled": "false"}),
        ({"requester_pays": True}, {"requester.pays.enabled": "true"}),
    ],
)
def test_settings(options, settings):
    assert s3a_settings(options) == settings


def test_a_scan_without_settings_is_the_sessions():
    assert scan_options({}, [("s3a", "b")]) == {}
    assert scan_options(SIMPLE, []) == {}


def test_every_bucket_has_the_settings():
    options = scan_options(SIMPLE, [("s3a", "b.c"), ("s3", "d"), ("s3a", "b.c")])
    for bucket in ("b.c", "d"):
        found = {name: options[f"fs.s3a.bucket.{bucket}.{name}"] for name in SIMPLE}
        assert found == SIMPLE
    inner = options["fs.viewfs.mounttable.d.linkFallback"].removesuffix("://d/")
    assert options[f"fs.{inner}.impl"] == f"{S3A}.S3AFileSystem"
    assert options["fs.s3.impl.disable.cache"] == options["fs.s3a.impl.disable.cache"] == "true"


def test_scans_share_options_only_if_they_share_settings():
    roots = [("s3a", "b"), ("s3a", "c")]
    one, same = (scan_options(SIMPLE, at) for at in (roots, roots[::-1]))
    other = scan_options(SIMPLE | {"secret.key": "x"}, roots)
    name = "fs.viewfs.mounttable.b.linkFallback"
    assert one == same
    assert one[name] != other[name]
