"""obstore lists buckets on AWS only where its requests are those of botocore."""

from __future__ import annotations

from typing import Any

import pytest

from splitlib.storage import AzureSettings, S3Settings
from splitlib.storage.clouds import GcsSettings
from splitlib.storage.pages import NotFollowed
from splitlib.storage.s3_pages import S3Pages

OPTIONS = {"key": "k", "secret": "s", "region": "eu-west-1"}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that creates an S3 store from options, and returns its arguments."""
    monkeypatch.setattr("obstore.store.S3Store", lambda bucket, **with_: with_)

    def make(options: dict[str, Any], bucket: str = "lake") -> Any:
        settings = S3Settings.from_fsspec(OPTIONS | options)
        return settings.stores()(bucket, retry_config={"max_retries": 0})

    return make


@pytest.mark.parametrize(
    ("style", "bucket", "is_virtual"),
    [
        (None, "lake", True),
        ("auto", "my.lake", False),
        ("virtual", "my.lake", True),
        ("path", "lake", False),
    ],
)
def test_where_a_bucket_is(made, style, bucket, is_virtual):
    options = {"config_kwargs": {"s3": {"addressing_style": style}}} if style else {}
    assert made(options, bucket)["virtual_hosted_style_request"] is is_virtual


def test_directory_buckets_are_left_to_s3fs(made):
    with pytest.raises(NotFollowed, match="Directory buckets"):
        made({}, "lake--use1-az4--x-s3")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_CA_BUNDLE", "/ca.pem"),
        ("REQUESTS_CA_BUNDLE", "/ca.pem"),
        ("AWS_USE_FIPS_ENDPOINT", "true"),
        ("AWS_USE_DUALSTACK_ENDPOINT", "true"),
        ("AWS_ENDPOINT", "https://h"),
        ("AWS_S3_EXPRESS", "true"),
        ("AWS_SKIP_SIGNATURE", "true"),
        ("AWS_PROXY_URL", "http://h"),
        ("AWS_ALLOW_INVALID_CERTIFICATES", "true"),
    ],
)
def test_an_environment_that_only_one_client_follows(made, monkeypatch, name, value):
    made({})
    monkeypatch.setenv(name, value)
    with pytest.raises(NotFollowed, match=name.removeprefix("AWS_").lower() + f"|{name}"):
        made({})
    # Servers other than AWS are listed with botocore's requests.
    assert isinstance(made({"endpoint_url": "http://h"}), S3Pages)


def test_certificates_that_both_clients_use(made, monkeypatch):
    monkeypatch.setenv("AWS_CA_BUNDLE", "/ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", "/ca.pem")
    made({})


def test_variables_of_other_clouds_that_only_obstore_follows(monkeypatch):
    GcsSettings("anon").stores()
    monkeypatch.setenv("GOOGLE_BASE_URL", "http://h")
    with pytest.raises(NotFollowed, match="GOOGLE_BASE_URL"):
        GcsSettings("anon").stores()
    AzureSettings(account_key="k").stores()
    monkeypatch.setenv("AZURE_PROXY_URL", "http://h")
    with pytest.raises(NotFollowed, match="AZURE_PROXY_URL"):
        AzureSettings(account_key="k").stores()


@pytest.mark.parametrize("region", ["cn-north-1", "us-iso-east-1"])
def test_partitions_with_other_hosts_are_left_to_s3fs(made, region):
    with pytest.raises(NotFollowed, match="partition"):
        made({"region": region})


@pytest.mark.parametrize("region", ["us-gov-west-1", "somewhere"])
def test_regions_with_the_hosts_of_aws(made, region):
    assert made({"region": region})["region"] == region


def test_configured_addresses_are_ignored(made, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://h")
    assert isinstance(made({}), S3Pages)
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    # botocore ignores the address, but obstore would use it.
    with pytest.raises(NotFollowed, match="AWS_ENDPOINT_URL"):
        made({})
