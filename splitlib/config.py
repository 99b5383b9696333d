"""All settings: names, defaults, units, ranges and documentation.

The first source that sets a value wins: an argument, the Spark session
(``spark.splitlib.<camelCase>``), the environment (``SPLITLIB_<UPPER_SNAKE>``), the default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, NamedTuple, Self, get_args, get_origin, get_type_hints

from splitlib.errors import ConfigError
from splitlib.suggestions import did_you_mean

SPARK_PREFIX = "spark.splitlib."
ENV_PREFIX = "SPLITLIB_"
# Prefixes of named catalogs, which share these sources with the settings; see splitlib.catalogs.
SPARK_CATALOG_PREFIX = "spark.splitlib.catalog."
ENV_CATALOG_PREFIX = "SPLITLIB_CATALOG__"
ENV_CATALOGS_FILE = "SPLITLIB_CATALOGS_FILE"

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SIZE = re.compile(r"(-?\d{1,30})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SHOWN = 100
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def _setting(
    default: Any, doc: str, *, minimum: float | None = None, choices: tuple[str, ...] = ()
) -> Any:
    return field(default=default, metadata={"doc": doc, "minimum": minimum, "choices": choices})


class ResolvedSetting(NamedTuple):
    """One setting, as the command ``splitlib config`` prints it."""

    name: str
    value: Any
    source: str
    """``argument``, a Spark key, an environment variable, or ``default``."""
    doc: str


@dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """Settings of planning and reading. All have defaults; names contain the unit.

    Raises:
        ConfigError: for an unknown name or a value out of range.
    """

    dynamic_filtering_enabled: bool = _setting(
        True, "Off: every partition is read, as without splitlib."
    )
    filter_threshold_bytes: int = _setting(
        32 * 2**20,
        "Distinct join keys kept before falling back to a range, in bytes; <= 0: no limit.",
    )
    filter_max_values: int | None = _setting(
        None, "The same limit counted in distinct tuples; unset: no limit.", minimum=1
    )
    filter_on_exceed: str = _setting(
        "range",
        "Beyond the limit: 'range' keeps each key's minimum and maximum, 'all' prunes nothing.",
        choices=("range", "all"),
    )
    filter_wait_seconds: float = _setting(
        0.0, "How long enumeration waits for a filter announced but not delivered.", minimum=0
    )
    listing_threads: int = _setting(32, "Directories listed at the same time.", minimum=1)
    target_split_bytes: int = _setting(
        128 * 2**20, "Size of a split of a file in a format that can be split.", minimum=1
    )
    max_partitions: int = _setting(
        1_000_000, "More matching partitions than this are an error.", minimum=1
    )
    missing_partition: str = _setting(
        "error",
        "When a partition's directory does not exist: 'error', or 'skip' it.",
        choices=("error", "skip"),
    )
    allowed_locations: tuple[str, ...] | None = _setting(
        None,
        "Paths and URIs of directories; whatever lies outside of them is an error before it is "
        "listed or read. In text separated by commas; unset, or 'none': everything is allowed.",
    )
    verify_files: bool = _setting(
        False,
        "Whether files are compared with what they were when they were listed. Spark's scans then "
        "ask for size and modification time of each before they read; splitlib's own readers ask "
        "for the time, and compare the size always.",
    )
    retry_attempts: int = _setting(5, "Calls of a source that is unavailable, in all.", minimum=1)
    retry_max_seconds: float = _setting(
        30.0, "No further attempt starts after this long.", minimum=0
    )
    # Hive's own client waits 600 seconds. A healthy metastore returns a million partition names in
    # a tenth of this default.
    call_deadline_seconds: float = _setting(
        300.0,
        "How long one call of catalog or storage may take, all attempts together; 0: no limit.",
        minimum=0,
    )
    # Listing max_partitions directories at 0.1 seconds each in 32 threads takes 52 minutes.
    enumeration_deadline_seconds: float = _setting(
        3600.0,
        "How long one enumeration may wait for catalog and storage in all; 0: no limit. The time "
        "in which its consumer asks for nothing does not count.",
        minimum=0,
    )
    planner_dimension_bytes: int = _setting(
        2**30, "A dimension that reads more than this is not run for its keys.", minimum=0
    )
    planner_small_fact_partitions: int = _setting(
        4, "A table of so few partitions is left to Spark.", minimum=0
    )
    runtime_filter_bytes: int = _setting(
        2**28,
        "A scan of at least so much is tried with a Bloom filter of the keys of a smaller, pruned "
        "side of a join by a shuffle, and drops what it does not keep.",
        minimum=0,
    )
    condition_literals: int = _setting(
        200, "Literals in a condition made of join keys; more keys become ranges.", minimum=2
    )
    condition_literals_jdbc: int = _setting(
        1000, "The same for databases, in all conditions on a table together.", minimum=2
    )
    spark_scan: str = _setting(
        "auto",
        "How Spark reads the files: 'pinned' (nothing is listed again), 'paths' (public API only), "
        "'auto' takes the first where it is known to work.",
        choices=("auto", "pinned", "paths"),
    )

    def __new__(cls, **settings: Any) -> Self:
        """Raise a ConfigError that suggests the nearest name, instead of a bare TypeError."""
        for name in settings:
            if name not in cls.__dataclass_fields__:
                hint = did_you_mean(name, _names(), otherwise="known are")
                raise ConfigError(f"Unknown setting {name!r}.", hint=hint)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        given: Any = self.allowed_locations
        if isinstance(given, list):
            object.__setattr__(self, "allowed_locations", tuple(given))
        types = get_type_hints(SplitConfig)
        for spec in fields(self):
            _check(spec.name, getattr(self, spec.name), types[spec.name], spec.metadata)
        _check_locations(self.allowed_locations)

    @classmethod
    def resolve(
        cls,
        arguments: Mapping[str, Any] | None = None,
        *,
        spark_conf: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> SplitConfig:
        """Return the settings that result from these sources (see the module for their order)."""
        resolved = resolve_settings(arguments, spark_conf=spark_conf, environ=environ)
        return cls(**{setting.name: setting.value for setting in resolved})


# help() shows the docstring of a class, but not the metadata of its fields.
SplitConfig.__doc__ = "\n        ".join(
    [
        f"{(SplitConfig.__doc__ or '').rstrip()}\n\n    Attributes:",
        *(f"{each.name}: {each.metadata['doc']}" for each in fields(SplitConfig)),
    ]
)


def resolve_settings(
    arguments: Mapping[str, Any] | None = None,
    *,
    spark_conf: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[ResolvedSetting]:
    """Return every setting with its value and source, in declaration order."""
    arguments = arguments or {}
    environ = os.environ if environ is None else environ
    spark_conf = spark_conf or {}
    _refuse_unknown(arguments, spark_conf, environ)
    types = get_type_hints(SplitConfig)
    resolved = []
    for spec in fields(SplitConfig):
        spark_key, env_key = SPARK_PREFIX + option_name(spec.name), ENV_PREFIX + spec.name.upper()
        value, source = spec.default, "default"
        if spec.name in arguments:
            value, source = arguments[spec.name], "argument"
        elif spark_key in spark_conf:
            value, source = spark_conf[spark_key], spark_key
        elif env_key in environ:
            value, source = environ[env_key], env_key
        if isinstance(value, str):
            value = _from_text(source, value, types[spec.name])
        resolved.append(ResolvedSetting(spec.name, value, source, spec.metadata["doc"]))
    return resolved


def _refuse_unknown(
    arguments: Iterable[str], spark_conf: Iterable[str], environ: Iterable[str]
) -> None:
    names = _names()
    sources = (
        (arguments, "", names, "\0"),
        (
            spark_conf,
            SPARK_PREFIX,
            [SPARK_PREFIX + option_name(n) for n in names],
            SPARK_CATALOG_PREFIX,
        ),
        (environ, ENV_PREFIX, [ENV_PREFIX + n.upper() for n in names], ENV_CATALOG_PREFIX),
    )
    for given, prefix, known, other in sources:
        for key in given:
            elsewhere = key.startswith(other) or key == ENV_CATALOGS_FILE
            if key.startswith(prefix) and not elsewhere and key not in known:
                hint = did_you_mean(key, known, otherwise="known are")
                raise ConfigError(f"Unknown setting {key!r}.", hint=hint)


def _check(name: str, value: Any, declared: Any, metadata: Mapping[str, Any]) -> None:
    accepted = _kinds(declared)
    if float in accepted:
        accepted = (*accepted, int)
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
        expected = " or ".join(kind.__name__ for kind in accepted)
        raise ConfigError(f"{name} must be {expected}, not {value!r}.")
    minimum, choices = metadata["minimum"], metadata["choices"]
    # Written with `not >=` so that NaN is rejected too.
    if minimum is not None and value is not None and not value >= minimum:
        raise ConfigError(f"{name} must be at least {minimum}, not {value!r}.")
    if choices and value not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {value!r}.")


def _check_locations(locations: Any) -> None:
    for location in locations or ():
        is_absolute = isinstance(location, str) and _ABSOLUTE.match(location)
        if not is_absolute:
            raise ConfigError(
                f"allowed_locations must be absolute paths and URIs, not {location!r}.",
                hint="write /data/sales or s3://bucket/sales; in text, 'none' allows everything.",
            )
        if _CONTROL.search(location):
            raise ConfigError(
                f"allowed_locations has a control character in {location!r}.",
                hint="write the location without it.",
            )


def _kinds(declared: Any) -> tuple[Any, ...]:
    """Return the classes in a type annotation such as ``tuple[str, ...] | None``."""
    kinds = get_args(declared) if get_origin(declared) is UnionType else (declared,)
    return tuple(get_origin(kind) or kind for kind in kinds)


def _from_text(source: str, text: str, declared: Any) -> Any:
    accepted = _kinds(declared)
    text = text.strip()
    if tuple in accepted:
        parts = tuple(part.strip() for part in text.split(","))
        return None if text.lower() == "none" else parts
    if str in accepted:
        return text
    if bool in accepted:
        if text.lower() in ("true", "1", "yes", "on"):
            return True
        if text.lower() in ("false", "0", "no", "off"):
            return False
    elif float in accepted:
        try:
            return float(text)
        except ValueError:
            pass
    elif type(None) in accepted and text.lower() in ("", "none"):
        return None
    elif size := _SIZE.fullmatch(text):
        return int(size[1]) << _UNITS[size[2].lower()]
    kinds = " or ".join(kind.__name__ for kind in accepted)
    raise ConfigError(f"{source} must be {kinds}, not {_shortened(text)!r}.")


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _names() -> list[str]:
    return [spec.name for spec in fields(SplitConfig)]


def option_name(name: str) -> str:
    """Return a setting's name in camel case, as used in Spark and data source options."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)
