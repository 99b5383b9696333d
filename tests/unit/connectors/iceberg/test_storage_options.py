"""PyIceberg properties are converted to fsspec options."""

from __future__ import annotations

import pytest

from splitlib_iceberg.storage_options import azure_options, s3_options

KEYS = {"s3.access-key-id": "k", "s3.secret-access-key": "s"}


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({}, {}),
        ({"uri": "http://x", "token": "t"}, {}),
        (KEYS, {"key": "k", "secret": "s"}),
        (KEYS | {"client.access-key-id": "x"}, {"key": "k", "secret": "s"}),
        (
            {"client.access-key-id": "k", "client.secret-access-key": "s"},
            {"key": "k", "secret": "s"},
        ),
        (
            KEYS | {"s3.session-token": "t", "s3.endpoint": "http://e", "client.region": "r"},
            {
                "key": "k",
                "secret": "s",
                "token": "t",
                "endpoint_url": "http://e",
                "client_kwargs": {"region_name": "r"},
            },
        ),
        ({"s3.anonymous": "true"}, {"anon": True}),
        (
            {"s3.force-virtual-addressing": "True"},
            {"config_kwargs": {"s3": {"addressing_style": "virtual"}}},
        ),
        # With a signer, a role or a profile, the keys may not be sufficient, so use no options.
        (KEYS | {"s3.signer": "S3V4RestSigner"}, {}),
        (KEYS | {"s3.role-arn": "arn:x"}, {}),
        (KEYS | {"client.profile-name": "p"}, {}),
    ],
)
def test_s3(properties, options):
    assert s3_options(properties) == options


HOST = "acc.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({}, {}),
        ({"uri": "http://x", "token": "t", "s3.access-key-id": "k"}, {}),
        (
            {"adls.account-name": "acc", "adls.account-key": "k", "adls.account-host": "h"},
            {"account_name": "acc", "account_key": "k", "account_host": "h"},
        ),
        ({"adls.connection-string": "AccountName=acc"}, {"connection_string": "AccountName=acc"}),
        (
            {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"},
            {"tenant_id": "t", "client_id": "c", "client_secret": "s"},
        ),
        (
            {f"adls.sas-token.{HOST}": "one", "adls.sas-token.b.dfs.core.windows.net": "two"},
            {"account_name": "acc", "sas_token": "one"},
        ),
        (
            {f"adls.sas-token.{HOST}": "one", "adls.sas-token": "own", "adls.account-name": "own"},
            {"account_name": "own", "sas_token": "own"},
        ),
        # PyIceberg uses other credentials instead of the key, which are not converted.
        ({"adls.account-key": "k", "adls.token": "t"}, {}),
        ({"adls.account-key": "k", "adls.credential": "c"}, {}),
    ],
)
def test_azure(properties, options):
    assert azure_options(properties) == options
