"""Fuzz target: settings as text, from the environment or a Spark session, and named catalogs."""

from __future__ import annotations

from dataclasses import fields

from splitlib import ConfigError, SplitConfig
from splitlib.config import ENV_CATALOGS_FILE, ENV_PREFIX, SPARK_PREFIX, option_name
from splitlib.registry import named_catalogs

_NAMES = [each.name for each in fields(SplitConfig)]
TOKENS = tuple(
    f"{ENV_PREFIX}{name.upper()}=\n{SPARK_PREFIX}{option_name(name)}=".encode() for name in _NAMES
)


def seeds() -> list[bytes]:
    values = ["1", "-1", "0", "64m", "1 GiB", "none", "off", "1.5", "nan", "inf", "1e400", "range"]
    lines = [f"{name}={value}" for name in _NAMES for value in values]
    return [
        *(f"{ENV_PREFIX}{line.upper()}".encode() for line in lines[::7]),
        b"SPLITLIB_CATALOG__LAKE__URI=thrift://a:9083\nspark.splitlib.catalog.lake.uri=thrift://b",
        b"spark.splitlib.listingThreads=8\nSPLITLIB_LISTING_THREADS=9",
    ]


def run(data: bytes) -> bool:
    lines = data.decode("utf-8", "replace").split("\n")
    given = {key: value for key, _, value in (line.partition("=") for line in lines)}
    given.pop(ENV_CATALOGS_FILE, None)
    named_catalogs(given, given)
    try:
        found = SplitConfig.resolve(spark_conf=given, environ=given)
    except ConfigError:
        return False
    assert SplitConfig(**{name: getattr(found, name) for name in _NAMES}) == found
    return True
