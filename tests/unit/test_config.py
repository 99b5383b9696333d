from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from splitlib import ConfigError, SplitConfig
from splitlib.config import resolve_settings

untyped: Any = SplitConfig  # the type checker accepts any arguments for this name

# Every key with its default. To change one means to change the public contract.
DEFAULTS = {
    "dynamic_filtering_enabled": True,
    "filter_threshold_bytes": 32 * 2**20,
    "filter_max_values": None,
    "filter_on_exceed": "range",
    "filter_wait_seconds": 0.0,
    "learn_statistics": True,
    "statistics_location": None,
    "listing_threads": 32,
    "target_split_bytes": 128 * 2**20,
    "max_partitions": 1_000_000,
    "missing_partition": "error",
    "allowed_locations": None,
    "verify_files": False,
    "retry_attempts": 5,
    "retry_max_seconds": 30.0,
    "call_deadline_seconds": 300.0,
    "enumeration_deadline_seconds": 3600.0,
    "planner_dimension_bytes": 2**30,
    "planner_small_fact_partitions": 4,
    "runtime_filter_bytes": 2**28,
    "condition_literals": 200,
    "condition_literals_jdbc": 1000,
    "spark_scan": "auto",
    "show_progress": True,
}


def test_defaults():
    assert dataclasses.asdict(SplitConfig()) == DEFAULTS
    assert SplitConfig.resolve(environ={}) == SplitConfig()
    assert all(setting.doc for setting in resolve_settings(environ={}))


def test_precedence():
    environ = {"SPLITLIB_LISTING_THREADS": "2", "SPLITLIB_MAX_PARTITIONS": "5"}
    spark = {"spark.splitlib.listingThreads": "3"}
    config = SplitConfig.resolve(environ=environ, spark_conf=spark)
    assert (config.listing_threads, config.max_partitions) == (3, 5)
    config = SplitConfig.resolve({"listing_threads": 4}, environ=environ, spark_conf=spark)
    assert config.listing_threads == 4
    sources = {s.name: s.source for s in resolve_settings(environ=environ, spark_conf=spark)}
    assert sources["listing_threads"] == "spark.splitlib.listingThreads"
    assert sources["max_partitions"] == "SPLITLIB_MAX_PARTITIONS"
    assert sources["spark_scan"] == "default"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("target_split_bytes", "64m", 64 << 20),
        ("target_split_bytes", "1 GiB", 1 << 30),
        ("filter_threshold_bytes", "-1", -1),
        ("filter_max_values", "none", None),
        ("filter_max_values", "7", 7),
        ("dynamic_filtering_enabled", "off", False),
        ("retry_max_seconds", "1.5", 1.5),
        ("allowed_locations", " s3://b/x , /data ", ("s3://b/x", "/data")),
        ("allowed_locations", "none", None),
    ],
)
def test_text_values(name, text, value):
    config = SplitConfig.resolve(environ={f"SPLITLIB_{name.upper()}": text})
    assert getattr(config, name) == value


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: untyped(filter_treshold_bytes=1), "did you mean 'filter_threshold_bytes'"),
        (lambda: SplitConfig.resolve({"treads": 1}), "Unknown setting 'treads'"),
        (lambda: SplitConfig(listing_threads=0), "at least 1, not 0"),
        (lambda: untyped(listing_threads="8"), "must be int, not '8'"),
        (lambda: SplitConfig(filter_max_values=0), "at least 1"),
        (lambda: untyped(filter_threshold_bytes=float("nan")), "must be int"),
        (lambda: SplitConfig(retry_max_seconds=float("nan")), "at least 0"),
        (lambda: SplitConfig(missing_partition="ignore"), "one of error, skip"),
        (lambda: SplitConfig(max_partitions=True), "must be int, not True"),
        (
            lambda: SplitConfig.resolve(environ={"SPLITLIB_FILTER_THRESHOLD_BYTES": "lots"}),
            "SPLITLIB_FILTER_THRESHOLD_BYTES must be int, not 'lots'",
        ),
        (
            lambda: SplitConfig.resolve(spark_conf={"spark.splitlib.listingThread": "1"}),
            "did you mean 'spark.splitlib.listingThreads'",
        ),
        (lambda: untyped(allowed_locations="/data"), "must be tuple or None, not '/data'"),
        (lambda: SplitConfig(allowed_locations=("data",)), "absolute paths and URIs, not 'data'"),
        # An environment variable that is empty by mistake must not allow all locations.
        (lambda: SplitConfig.resolve(environ={"SPLITLIB_ALLOWED_LOCATIONS": ""}), "not ''"),
        (lambda: SplitConfig.resolve({"allowed_locations": "/a,,/b"}), "not ''"),
        (lambda: untyped(allowed_locations=[1]), "absolute paths and URIs, not 1"),
        (lambda: SplitConfig.resolve(environ={"SPLITLIB_THREADS": "1"}), "SPLITLIB_THREADS"),
        (lambda: SplitConfig(allowed_locations=("/data/a\0",)), "control character"),
        (lambda: SplitConfig.resolve({"max_partitions": "1" * 5000}), "must be int, not '1{100}…'"),
    ],
)
def test_nonsense_is_refused(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


def test_locations_may_be_a_list():
    assert untyped(allowed_locations=["/data"]).allowed_locations == ("/data",)
    assert SplitConfig(allowed_locations=()).allowed_locations == ()


@pytest.mark.parametrize(
    ("source", "key", "form"),
    [
        ("spark_conf", "spark.splitlib.catalog.lake", "spark.splitlib.catalog.NAME.OPTION"),
        ("spark_conf", "spark.splitlib.catalogs.lake.uri", "spark.splitlib.catalog.NAME.OPTION"),
        ("environ", "SPLITLIB_CATALOG__LAKE", "SPLITLIB_CATALOG__NAME__OPTION"),
        ("environ", "SPLITLIB_CATALOG_LAKE_URI", "SPLITLIB_CATALOG__NAME__OPTION"),
    ],
)
def test_misspelled_options_of_catalogs(source, key, form):
    given = {"environ": {}, source: {key: "hive"}}
    with pytest.raises(ConfigError, match=f"{key}.*an option of a catalog is written {form}"):
        SplitConfig.resolve(**given)


@pytest.mark.parametrize(
    "name",
    [
        "SPLITLIB_SERVICE_HOST",
        "SPLITLIB_UI_SERVICE_PORT",
        "SPLITLIB_UI_SERVICE_PORT_HTTP",
        "SPLITLIB_PORT",
        "SPLITLIB_UI_PORT_80_TCP",
        "SPLITLIB_UI_PORT_80_TCP_ADDR",
    ],
)
def test_variables_of_a_kubernetes_service_are_no_settings(name):
    SplitConfig.resolve(environ={name: "10.0.0.1"})


def test_named_catalogs_are_no_settings():
    SplitConfig.resolve(
        environ={"SPLITLIB_CATALOG__LAKE__URI": "x", "OTHER": "y"},
        spark_conf={"spark.splitlib.catalog.lake.uri": "x", "spark.master": "y"},
    )
