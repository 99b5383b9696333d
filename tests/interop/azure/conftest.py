"""Fixtures that start an Azure test server and create a client for it.

They are in a separate package, because Azure's client is missing in other interop environments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from tests.interop.azure.server import Azurite, running_azurite

AZURITE = "INTEROP_AZURITE"
"""Environment variable with the directory where ``make interop`` installs Azurite."""


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """Start one Azurite server in each test process, and yield it."""
    directory = os.environ.get(AZURITE)
    if not directory:
        pytest.fail(f"{AZURITE} is not set: run these tests by `make interop`")
    with running_azurite(Path(directory)) as server:
        yield server


@pytest.fixture(scope="session")
def client(azurite: Azurite) -> Iterator[BlobServiceClient]:
    """Yield an Azure client that writes to the server."""
    with BlobServiceClient.from_connection_string(azurite.connection()) as client:
        yield client
