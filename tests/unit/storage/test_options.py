"""Storage options that are given as text."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

import pytest

from splitlib.cli.arguments import table_of
from splitlib.config import SplitConfig
from splitlib.errors import ConfigError
from splitlib.storage import nested_options, option_value

FLAT = {"key": "k", "anon": "true", "client_kwargs.endpoint_url": "http://x", "a.b.c": "1"}
NESTED = {
    "key": "k",
    "anon": True,
    "client_kwargs": {"endpoint_url": "http://x"},
    "a": {"b": {"c": "1"}},
}


def test_values():
    given = ("true", "false", "1", '{"a": 1}', "[1]", "{", "x")
    assert [option_value(text) for text in given] == [True, False, "1", {"a": 1}, [1], "{", "x"]


@pytest.mark.parametrize("flat", [{"a": "1", "a.b": "2"}, {"a.b": "2", "a": "1"}])
def test_a_value_and_options(flat):
    with pytest.raises(ConfigError, match=r"'a'"):
        nested_options(flat)


@pytest.mark.parametrize("prefix", ["storage_options.", "storage."])
def test_of_the_data_source(prefix):
    given = {"table": "t", **{prefix + name: value for name, value in FLAT.items()}}
    plan = pytest.importorskip("splitlib.spark.datasource.plan", exc_type=ImportError)
    assert plan.ReadOptions.parse(given).storage == NESTED


def test_of_a_named_catalog_in_the_data_source(monkeypatch):
    plan = pytest.importorskip("splitlib.spark.datasource.plan", exc_type=ImportError)
    monkeypatch.setenv("SPLITLIB_CATALOG__LAKE__CONNECTOR", "files")
    monkeypatch.setenv("SPLITLIB_CATALOG__LAKE__STORAGE_OPTIONS__ANON", "true")
    given = {"table": "lake.t", "read_options.header": "true"}
    options = plan.ReadOptions.parse(given)
    assert options.storage == {"anon": True}
    assert options.others == {"read_options": {"header": "true"}}
    assert plan.ReadOptions.parse({**given, "storage.key": "k"}).storage == {"key": "k"}
    assert plan.ReadOptions.parse({**given, "connector": "files"}).storage == {}


def test_of_the_command_line(monkeypatch):
    opened = {}

    def opening(*_, **options):
        opened.update(options)
        return nullcontext()

    monkeypatch.setattr("splitlib.cli.arguments.open_table", opening)
    options = [f"storage_options.{name}={value}" for name, value in FLAT.items()]
    args = argparse.Namespace(table="t", connector="files", uri=None, option=options, conf=[])
    with table_of(args, SplitConfig()):
        pass
    assert opened["storage_options"] == NESTED
