from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.s3_server import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server shared by all tests of the process. Each test uses its own bucket."""
    with S3Server().running() as server:
        yield server
