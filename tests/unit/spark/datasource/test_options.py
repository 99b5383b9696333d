"""The options of ``spark.read.format("splitlib")``, as Spark passes them."""

from __future__ import annotations

import base64

import pytest

from splitlib import ConfigError, DynamicFilteringData, InvalidFilter, SplitConfig
from splitlib.spark.datasource.plan import ReadOptions

KEYS = DynamicFilteringData.from_values({"k": [1, 2]})
MORE = DynamicFilteringData.from_range({"a": (3, 4)})


def encoded(data):
    return base64.b64encode(data.to_bytes()).decode()


def test_defaults():
    options = ReadOptions.parse({"path": "db.t"})
    assert options == ReadOptions(
        table="db.t",
        connector=None,
        columns=None,
        filters=(),
        time_zone=None,
        max_bytes_per_trigger=2**30,
        config=SplitConfig.resolve(),
        storage={},
        others={},
    )


@pytest.mark.parametrize("spelled", [str, str.lower, str.upper])
def test_every_option_whatever_its_case(spelled):
    given = {
        "table": "db.t",
        "connector": "hive",
        "columns": "a, B",
        "filter": encoded(KEYS),
        "filter.2": encoded(MORE),
        "timeZone": "Asia/Tokyo",
        "maxBytesPerTrigger": "3m",
        "targetSplitBytes": "1k",
        "storage.key": "0123",
        "storage.client_kwargs": '{"endpoint_url": "http://localhost:1"}',
        "uri": "thrift://localhost:9083",
    }
    options = ReadOptions.parse({spelled(key): value for key, value in given.items()})
    assert (options.table, options.connector, options.columns) == ("db.t", "hive", ("a", "B"))
    assert options.filters == (KEYS, MORE)
    assert options.time_zone == "Asia/Tokyo"
    assert options.max_bytes_per_trigger == 3 * 2**20
    assert options.config == SplitConfig.resolve({"target_split_bytes": 1024})
    # A storage key that consists of digits stays a string.
    assert options.storage == {
        "key": "0123",
        "client_kwargs": {"endpoint_url": "http://localhost:1"},
    }
    assert options.others == {"uri": "thrift://localhost:9083"}


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("colums", "columns"),
        ("conector", "connector"),
        ("filters", "filter"),
        ("target_split_bytes", "targetSplitBytes"),
        ("targetSplitByte", "targetSplitBytes"),
        ("maxBytePerTrigger", "maxBytesPerTrigger"),
        ("time_zone", "timeZone"),
    ],
)
def test_the_nearest_option_is_named(misspelt, meant):
    with pytest.raises(ConfigError, match=f"{misspelt.lower()}.*did you mean '{meant}'"):
        ReadOptions.parse({"path": "db.t", misspelt: "hunter2"})


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"table": "db.t", "path": "db.u"},
        {"path": "db.t", "maxbytespertrigger": "many"},
        {"path": "db.t", "maxbytespertrigger": "0"},
        {"path": "db.t", "targetsplitbytes": "many"},
    ],
)
def test_what_is_missing_or_malformed(wrong):
    with pytest.raises(ConfigError):
        ReadOptions.parse(wrong)


@pytest.mark.parametrize("text", ["", "***", "é", "aHVudGVyMg==", encoded(KEYS)[:-8]])
def test_what_is_no_filter(text):
    with pytest.raises(InvalidFilter, match=r"Option filter\.2 is not a valid filter") as caught:
        ReadOptions.parse({"path": "db.t", "filter.2": text})
    assert "hunter2" not in str(caught.value)


def test_nothing_secret_is_shown():
    secret = {"storage.secret": "hunter2", "password": "hunter2", "uri": "thrift://u:hunter2@h:1"}
    keys = DynamicFilteringData.from_values({"k": ["hunter2"]})
    options = ReadOptions.parse({"path": "db.t", "filter": encoded(keys), **secret})
    assert "db.t" in repr(options)
    assert "hunter2" not in repr(options)
