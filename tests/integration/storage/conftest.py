from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.s3_server import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """Start an S3 server for all tests of the process. The tests use different buckets."""
    with S3Server().running() as server:
        yield server
