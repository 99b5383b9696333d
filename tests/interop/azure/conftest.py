"""Fixtures with an Azure test server and a client of it.

They are in a separate package, because other interop environments lack Azure's client.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from tests.interop.azure.server import Azurite, running_azurite

AZURITE = "INTEROP_AZURITE"
"""Environment variable: directory in which ``make interop`` installed Azurite."""


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """An Azurite server for each test process."""
    directory = os.environ.get(AZURITE)
    if not directory:
        pytest.fail(f"{AZURITE} is not set: run these tests by `make interop`")
    with running_azurite(Path(directory)) as server:
        yield server


@pytest.fixture(scope="session")
def client(azurite: Azurite) -> Iterator[BlobServiceClient]:
    """A client that writes to the server."""
    with BlobServiceClient.from_connection_string(azurite.connection()) as client:
        yield client
