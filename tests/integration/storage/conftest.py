"""An S3 server that all tests of the process share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.s3_server import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """Its buckets are made by the tests, each of its own."""
    with S3Server().running() as server:
        yield server
