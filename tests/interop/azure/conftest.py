"""A server that stands for Azure, and a client of it.

Beside the tests that need them, since other environments run the tests around it without
Azure's client.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from tests.interop.azure.server import Azurite, running_azurite

AZURITE = "INTEROP_AZURITE"
"""Names the directory of a server that stands for Azure; ``make interop`` installs it."""


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """A server of its own for each process of tests."""
    directory = os.environ.get(AZURITE)
    if not directory:
        pytest.fail(f"{AZURITE} is not set: run these tests by `make interop`")
    with running_azurite(Path(directory)) as server:
        yield server


@pytest.fixture(scope="session")
def client(azurite: Azurite) -> Iterator[BlobServiceClient]:
    """What writes to that server."""
    with BlobServiceClient.from_connection_string(azurite.connection()) as client:
        yield client
