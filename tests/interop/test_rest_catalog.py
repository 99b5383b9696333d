"""splitlib reads reference tables through a REST catalog."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import splitlib
from tests.interop.reference.lake import NAMESPACE
from tests.interop.rest.server import rest_catalog

pytestmark = pytest.mark.spark

JARS = "INTEROP_REST_JARS"
"""Environment variable with the directory where ``make interop`` downloads the server's jars."""
TABLES = ("branches_and_tags_v3", "changed_specs_v2", "never_written_v2")


@pytest.fixture(scope="module")
def address(index, tmp_path_factory):
    jars = os.environ.get(JARS)
    if not jars:
        pytest.fail(f"{JARS} is not set: run these tests by `make interop`")
    database = Path(index["catalog"]["uri"].removeprefix("sqlite:///"))
    log = tmp_path_factory.mktemp("rest") / "server.log"
    with rest_catalog(Path(jars), database, index["catalog"]["catalog"], log) as running:
        yield running


@pytest.mark.parametrize("table", TABLES)
def test_the_same_files_of_every_version(index, address, table):
    name = f"{NAMESPACE}.{table}"
    for version in index["tables"][table]:
        pinned = version["options"]
        with (
            splitlib.load_table(name, "iceberg", type="rest", uri=address, **pinned) as served,
            splitlib.load_table(name, "iceberg", **index["catalog"], **pinned) as direct,
        ):
            assert served.metadata == direct.metadata
            assert _splits(served) == _splits(direct)


def _splits(table):
    return [(s.path, s.deletes) for s in splitlib.DynamicFileEnumerator(table).enumerate_splits()]


def test_no_such_table_or_version(address):
    for name in (f"{NAMESPACE}.missing", "missing.t"):
        with pytest.raises(splitlib.TableNotFound):
            splitlib.load_table(name, "iceberg", type="rest", uri=address)
    with pytest.raises(splitlib.SnapshotNotFound):
        splitlib.load_table(
            f"{NAMESPACE}.{TABLES[0]}", "iceberg", type="rest", uri=address, ref="x"
        )


def test_a_server_that_does_not_answer():
    config = splitlib.SplitConfig(retry_attempts=1)
    with pytest.raises(splitlib.SourceUnavailable):
        splitlib.load_table("a.b", "iceberg", config=config, type="rest", uri="http://127.0.0.1:9")
