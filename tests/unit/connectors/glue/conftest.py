from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.glue_server import GlueServer, stored


@pytest.fixture
def server() -> Iterator[GlueServer]:
    with GlueServer().running() as server:
        yield server


def add_table(server: GlueServer, keys: dict[str, str], **table: Any) -> None:
    """Add the table ``db.t`` with the column ``v`` and these keys."""
    described = {
        "StorageDescriptor": stored("file:///nowhere/t", [{"Name": "v", "Type": "bigint"}]),
        "PartitionKeys": [{"Name": name, "Type": kind} for name, kind in keys.items()],
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {},
    }
    server.add_table("db", "t", **{**described, **table})


def add_partition(server: GlueServer, *values: str, location: str | None = None) -> None:
    """Add a partition of ``db.t``."""
    where = location or "file:///nowhere/t/" + "/".join(values)
    columns = [{"Name": "v", "Type": "bigint"}]
    server.partitions("db", "t")[values] = {
        "Values": list(values),
        "StorageDescriptor": stored(where, columns),
        "Parameters": {},
    }
