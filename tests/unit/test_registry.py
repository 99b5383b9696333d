"""Connectors and catalogs are found by name."""

from __future__ import annotations

import sys

import pytest

import splitlib
from splitlib.registry import named_catalogs


def test_unknown_connector():
    with pytest.raises(splitlib.ConnectorNotFound, match="did you mean 'hive'"):
        splitlib.load_table("a.b", connector="hives")


def test_missing_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "splitlib_hive", raising=False)
    monkeypatch.setitem(sys.modules, "splitlib_hive", None)
    with pytest.raises(splitlib.ConnectorNotInstalled, match=r"pip install 'splitlib\[hive\]'"):
        splitlib.load_table("a.b", connector="hive", uri="thrift://127.0.0.1:1")


@pytest.mark.parametrize("error", ["RuntimeError('boom')", "ValueError('boom')"])
def test_a_connector_whose_module_fails_when_it_is_imported(monkeypatch, tmp_path, error):
    (tmp_path / "failing_connector.py").write_text(f"raise {error}")
    monkeypatch.syspath_prepend(tmp_path)
    installed = tmp_path / "failing_connector-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: failing-connector\nVersion: 1\n")
    entry_point = "[splitlib.connectors]\nfailing = failing_connector:X\n"
    (installed / "entry_points.txt").write_text(entry_point)
    with pytest.raises(splitlib.ConnectorNotInstalled, match=r"imported: boom.*report it"):
        splitlib.load_table("a.b", connector="failing")


def test_no_connector_is_named():
    with pytest.raises(splitlib.ConfigError, match=r"spark\.splitlib\.catalog\.a\.connector"):
        splitlib.load_table("a.b")


def test_a_catalog_named_in_the_environment(tmp_path, monkeypatch):
    (tmp_path / "k=1").mkdir()
    monkeypatch.setenv("SPLITLIB_CATALOG__LAKE__CONNECTOR", "files")
    monkeypatch.setenv("SPLITLIB_CATALOG__LAKE__SCHEMA", "a int")
    table = splitlib.load_table(f"lake.{tmp_path}")
    assert table.partition_keys == ("k",)
    assert table.list_accepted_filter_fields() == ("k",)


def test_spark_wins_over_the_environment():
    catalogs = named_catalogs(
        {"spark.splitlib.catalog.lake.uri": "spark", "spark.app.name": "x"},
        {"SPLITLIB_CATALOG__LAKE__URI": "env", "SPLITLIB_CATALOG__LAKE__CONNECTOR": "hive"},
    )
    assert catalogs == {"lake": {"uri": "spark", "connector": "hive"}}


def test_mappings_of_a_named_catalog(tmp_path):
    file = tmp_path / "catalogs.toml"
    file.write_text(
        """[lake.storage_options]
anon = false
client_kwargs = {region_name = "file", endpoint_url = "file"}
"""
    )
    catalogs = named_catalogs(
        {
            "spark.splitlib.catalog.lake.storage_options.client_kwargs.endpoint_url": "spark",
            "spark.splitlib.catalog.lake.read_options.header": "true",
            "spark.splitlib.catalog.ice.s3.endpoint": "spark",
            "spark.splitlib.catalog.ice.storage_options": '{"anon": true}',
        },
        {
            "SPLITLIB_CATALOG__LAKE__STORAGE_OPTIONS__ANON": "true",
            "SPLITLIB_CATALOG__LAKE__STORAGE_OPTIONS__CLIENT_KWARGS__ENDPOINT_URL": "env",
            "SPLITLIB_CATALOG__ICE__S3__ACCESS_KEY_ID": "env",
            "SPLITLIB_CATALOGS_FILE": str(file),
        },
    )
    kwargs = {"region_name": "file", "endpoint_url": "spark"}
    assert catalogs == {
        "lake": {
            "storage_options": {"anon": True, "client_kwargs": kwargs},
            "read_options": {"header": "true"},
        },
        "ice": {
            "s3.access-key-id": "env",
            "s3.endpoint": "spark",
            "storage_options": {"anon": True},
        },
    }


def test_a_mapping_given_twice():
    prefix = "spark.splitlib.catalog.lake.storage_options"
    with pytest.raises(
        splitlib.ConfigError, match="'storage_options' of catalog 'lake' is given both"
    ):
        named_catalogs({prefix: "{}", f"{prefix}.anon": "true"}, {})
