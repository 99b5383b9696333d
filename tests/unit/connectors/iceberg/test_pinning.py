"""The snapshot, branch or tag at which an Iceberg table is opened."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.utils.config import Config

import splitlib
from splitlib_iceberg import IcebergConnector
from tests.support.iceberg_tables import (
    append,
    catalog_options,
    create,
    data_file,
    open_table,
    select,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE, Keys, rewrite_metadata


def test_names_of_tables(catalog, table, tmp_path, monkeypatch):
    for namespace in ("a", "a.b", "a.b.c", "d"):
        catalog.create_namespace(namespace)
    for name in ("a.u", "a.t", "a.b.c.t"):
        catalog.create_table(name, SIMPLE)
    database, name = table.name()
    every = [("a", "t"), ("a", "u"), ("a.b.c", "t"), (database, name)]
    for options in (catalog_options(tmp_path), {"catalog": catalog}):
        assert list(IcebergConnector.table_names(None, options)) == every
        assert list(IcebergConnector.table_names("a", options)) == every[:2]
        assert list(IcebergConnector.table_names("a.b.c", options)) == every[2:3]
        assert list(IcebergConnector.table_names("d", options)) == []
        with pytest.raises(splitlib.TableNotFound):
            list(IcebergConnector.table_names("e", options))
    assert catalog.load_table("a.t")  # the user's own catalog is still open
    asked: list[Any] = []

    def listed(namespace):
        asked.append(namespace)
        return [(*namespace, "t")]

    monkeypatch.setattr(catalog, "list_tables", listed)
    assert list(IcebergConnector.table_names("a.b", {"catalog": catalog})) == [("a.b", "t")]
    assert asked == [("a", "b")]  # servers join the parts with a character of their own


def test_an_empty_table_reads_as_nothing(catalog):
    table = create(catalog, SIMPLE, BY_D)
    for pin in ({}, {"ref": "main"}):
        opened = open_table(catalog, table, **pin)
        assert opened.metadata.snapshot_id is None
        assert opened.schema.names == ["d", "c"]
        assert select(opened)[0] == []
        assert select(opened, Keys.from_values({"d": [1]}))[0] == []
    with pytest.raises(splitlib.SnapshotNotFound, match="available: none"):
        open_table(catalog, table, ref="side")


def test_a_snapshot_is_pinned_when_the_table_is_opened(catalog, table):
    opened = open_table(catalog, table)
    assert opened.metadata.snapshot_id == str(table.current_snapshot().snapshot_id)
    append(table, [data_file(table, [{"d": 3}])])
    assert len(select(opened)[0]) == 2
    assert len(select(open_table(catalog, table))[0]) == 3


def test_every_way_to_pin_a_version(catalog, table):
    first, second = table.history()
    table.manage_snapshots().create_tag(first.snapshot_id, "old").commit()
    table.manage_snapshots().create_branch(first.snapshot_id, "side").commit()
    iso = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.UTC)
    for pin in (
        {"snapshot_id": first.snapshot_id},
        {"snapshot_id": str(first.snapshot_id)},
        {"ref": "old"},
        {"ref": "side"},
        {"as_of": first.timestamp_ms},
        {"as_of": str(first.timestamp_ms)},
        {"as_of": iso},
        {"as_of": iso.isoformat()},
    ):
        opened = open_table(catalog, table, **pin)
        assert opened.metadata.snapshot_id == str(first.snapshot_id), pin
        assert len(select(opened)[0]) == 1
    for pin in ({"ref": "main"}, {"as_of": second.timestamp_ms + 1}):
        assert len(select(open_table(catalog, table, **pin))[0]) == 2


def test_which_schema_a_version_is_shown_with(catalog, table):
    """A branch has the table's current schema. Snapshots and tags have their own, as in Spark."""
    old = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(old, "tag").create_branch(old, "branch").commit()
    with table.update_schema() as update:
        update.rename_column("c", "renamed")
    names = {
        str(pin): open_table(catalog, table, **pin).schema.names
        for pin in ({"snapshot_id": old}, {"ref": "tag"}, {"ref": "branch"}, {"ref": "main"}, {})
    }
    assert list(names.values()) == [["d", "c"]] * 2 + [["d", "renamed"]] * 3


def test_a_version_that_is_not_there(catalog, table):
    for pin, message in (
        ({"snapshot_id": 1}, "no snapshot 1"),
        ({"ref": "nope"}, "no branch or tag 'nope'"),
        ({"as_of": 1000}, "no snapshot at or before"),
    ):
        with pytest.raises(splitlib.SnapshotNotFound, match=message):
            open_table(catalog, table, **pin)


def test_a_snapshot_without_a_schema_that_exists(catalog, table):
    pin = {"snapshot_id": table.current_snapshot().snapshot_id}
    with table.update_schema() as update:
        update.rename_column("c", "renamed")

    def forget(metadata):
        for snapshot in metadata["snapshots"]:
            del snapshot["schema-id"]

    rewrite_metadata(table, forget)  # as old writers
    assert open_table(catalog, table, **pin).schema.names == ["d", "renamed"]

    def mistake(metadata):
        for snapshot in metadata["snapshots"]:
            snapshot["schema-id"] = 99

    rewrite_metadata(table, mistake)
    with pytest.raises(splitlib.CorruptMetadata, match="no schema 99"):
        open_table(catalog, table, **pin)


def test_an_expired_snapshot(catalog, table):
    first = table.history()[0]
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    for pin in ({"snapshot_id": first.snapshot_id}, {"as_of": first.timestamp_ms}):
        with pytest.raises(splitlib.SnapshotNotFound):
            open_table(catalog, table, **pin)


@pytest.mark.parametrize(
    "pins",
    [
        {"snapshot_id": 1, "ref": "main"},
        {"ref": "main", "as_of": 1},
        {"snapshot_id": "one"},
        {"as_of": "yesterday"},
        {"as_of": "2024-01-01T00:00:00"},
        {"as_of": dt.datetime(2024, 1, 1)},
        {"as_of": [1]},
        {"ref": 1},
        {"snapshot-id": 1},
        {"asOf": 1},
        {"storage_options": {"key": "k"}},
    ],
    ids=str,
)
def test_malformed_pins(catalog, table, pins):
    with pytest.raises(splitlib.ConfigError):
        open_table(catalog, table, **pins)


class Foreign(PyArrowFileIO):
    """A class that a table names. It counts its instances."""

    made = 0

    def __init__(self, properties):
        Foreign.made += 1
        super().__init__(properties)


@pytest.mark.parametrize("name", ["py-io-impl", "splitlib.py-io-impl"])
def test_a_table_does_not_choose_the_class_that_reads_files(catalog, name):
    table = create(catalog, SIMPLE, BY_D, {name: f"{__name__}.Foreign"})
    append(table, [data_file(table, [{"d": 1}])])
    before = Foreign.made
    options = {key: catalog.properties[key] for key in ("type", "uri", "warehouse")}
    opened = splitlib.load_table(".".join(table.name()), "iceberg", **options)
    assert len(select(opened)[0]) == 1
    assert Foreign.made == before


def test_the_user_chooses_the_class_that_reads_files(catalog, table, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__PY_IO_IMPL", f"{__name__}.Foreign")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    options = {key: catalog.properties[key] for key in ("type", "uri", "warehouse")}
    before = Foreign.made
    opened = splitlib.load_table(".".join(table.name()), "iceberg", **options)
    assert len(select(opened)[0]) == 2
    assert Foreign.made > before


EVIL = {
    "s3.endpoint": "http://evil",
    "gcs.service.host": "http://evil",
    "adls.account-host": "evil",
}
SECRETS: dict[str, Any] = {
    "s3.access-key-id": "k",
    "s3.secret-access-key": "s",
    "s3.session-token": "t",
}


def test_a_table_does_not_choose_where_credentials_are_sent(catalog):
    table = create(catalog, SIMPLE, BY_D, EVIL)
    options = {key: catalog.properties[key] for key in ("type", "uri", "warehouse")}
    with splitlib.load_table(".".join(table.name()), "iceberg", **options, **SECRETS) as opened:
        assert opened.storage_options("s3") == {"key": "k", "secret": "s", "token": "t"}
        assert "evil" not in str(opened.storage_options("abfss"))
