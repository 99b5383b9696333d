"""All settings: names, defaults, units, ranges and documentation.

The first source that sets a value wins: an argument, the Spark session
(``spark.splitlib.<camelCase>``), the environment (``SPLITLIB_<UPPER_SNAKE>``), the default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from inspect import cleandoc
from types import UnionType
from typing import Any, NamedTuple, Self, get_args, get_origin, get_type_hints

from splitlib.errors import ConfigError, did_you_mean
from splitlib.redaction import show

SPARK_PREFIX = "spark.splitlib."
ENV_PREFIX = "SPLITLIB_"
# Prefixes of the keys that define named catalogs. Catalogs are read from the same sources as the
# settings; see splitlib.registry.
SPARK_CATALOG_PREFIX = "spark.splitlib.catalog."
ENV_CATALOG_PREFIX = "SPLITLIB_CATALOG__"
ENV_CATALOGS_FILE = "SPLITLIB_CATALOGS_FILE"

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Kubernetes sets variables with such names for each service. The name of a service may start with
# "splitlib".
_OF_KUBERNETES = re.compile(r"_(SERVICE_HOST|SERVICE_PORT\w*|PORT(_\d+_\w+)?)$")
_SIZE = re.compile(r"(-?\d{1,30})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SHOWN = 100
# Hints on how to write a setting as text, by the setting's type.
_FORMS = {
    bool: "write true or false.",
    int: "write a whole number, such as 1000, or 64m for 64 MiB.",
    float: "write a number without a unit, such as 0.5.",
}
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def _setting(
    default: Any, doc: str, *, minimum: float | None = None, choices: tuple[str, ...] = ()
) -> Any:
    return field(default=default, metadata={"doc": doc, "minimum": minimum, "choices": choices})


class ResolvedSetting(NamedTuple):
    """One setting with its value and source, as the command ``splitlib config`` prints it."""

    name: str
    value: Any
    source: str
    """Source of the value: ``argument``, a Spark key, an environment variable, or ``default``."""
    doc: str


@dataclass(frozen=True, kw_only=True, repr=False)
class SplitConfig:
    """Settings for planning and reading.

    Every setting has a default. The names of sizes and times end with the unit.

    Raises:
        ConfigError: if a name is unknown or a value is out of range.
    """

    dynamic_filtering_enabled: bool = _setting(
        True, "Whether join keys prune partitions. If false, every partition is read."
    )
    filter_threshold_bytes: int = _setting(
        32 * 2**20,
        "Maximum size of a filter's distinct join keys, in bytes; 0 or less means no limit.",
    )
    filter_max_values: int | None = _setting(
        None, "Maximum number of a filter's distinct join keys; unset means no limit.", minimum=1
    )
    filter_on_exceed: str = _setting(
        "range",
        "How to prune by more keys than filter_threshold_bytes or filter_max_values: 'range' uses "
        "their minimum and maximum, 'all' does not prune. With 'range', keys of several columns "
        "are first kept as separate values of each column.",
        choices=("range", "all"),
    )
    filter_wait_seconds: float = _setting(
        0.0,
        "Maximum wait for announced filters, in seconds; then planning continues without them.",
        minimum=0,
    )
    learn_statistics: bool = _setting(
        True,
        "Whether footers of Parquet files are read, if this saves work, so that filters on columns "
        "other than partition keys can drop files.",
    )
    statistics_location: str | None = _setting(
        None,
        "Directory or URI for statistics read from footers, which many processes may share; unset "
        "keeps them in memory only. The statistics contain the least and greatest values of "
        "columns. Anyone who can write to this location can hide rows from queries.",
    )
    listing_threads: int = _setting(32, "Maximum number of parallel listings.", minimum=1)
    target_split_bytes: int = _setting(
        128 * 2**20, "Target size of a split, in bytes, for files that can be split.", minimum=1
    )
    max_partitions: int = _setting(
        1_000_000,
        "Maximum number of partitions whose files are listed; more raise an error. In splitlib.sql "
        "and splitlib.optimize, it applies to tables of the session only if join keys prune them.",
        minimum=1,
    )
    missing_partition: str = _setting(
        "error",
        "What to do if the directory of a partition does not exist: 'error' or 'skip'. If unset, "
        "splitlib.sql and splitlib.optimize skip it in tables of the session, as Spark does.",
        choices=("error", "skip"),
    )
    allowed_locations: tuple[str, ...] | None = _setting(
        None,
        "Directories, as paths or URIs, that may be listed and read; any other location raises an "
        "error. In text, separate them by commas. Unset or 'none' allows every location.",
    )
    verify_files: bool = _setting(
        False,
        "Whether a scan fails if a file changed after planning. Spark's scans then check the size "
        "and the modification time of each file before reading. splitlib's own readers always "
        "check the size. Arrow datasets always check the time, too, and the data source with this "
        "setting.",
    )
    retry_attempts: int = _setting(5, "Maximum attempts while a source is unavailable.", minimum=1)
    retry_max_seconds: float = _setting(
        30.0, "Time after which no further attempt starts, in seconds.", minimum=0
    )
    # Hive's own client waits 600 seconds. A healthy metastore returns a million partition names in
    # a tenth of this default.
    call_deadline_seconds: float = _setting(
        300.0,
        "Maximum time of one call to the catalog or the storage, with all its attempts, in "
        "seconds; 0 means no limit.",
        minimum=0,
    )
    # The default is just enough to list max_partitions directories, at 0.1 seconds each, in 32
    # threads: that takes 52 minutes.
    enumeration_deadline_seconds: float = _setting(
        3600.0,
        "Maximum time that one enumeration waits for catalog and storage, in seconds; 0 means no "
        "limit. Time in which the consumer requests nothing does not count.",
        minimum=0,
    )
    planner_dimension_bytes: int = _setting(
        2**30, "Maximum size of a dimension queried for join keys, in bytes.", minimum=0
    )
    planner_small_fact_partitions: int = _setting(
        4, "Tables with at most this many partitions are left to Spark.", minimum=0
    )
    runtime_filter_bytes: int = _setting(
        2**28,
        "Minimum size of a scan, in bytes, that is filtered with a Bloom filter of join keys. The "
        "keys come from the smaller, pruned side of a shuffle join.",
        minimum=0,
    )
    condition_literals: int = _setting(
        200,
        "Maximum number of literals in a condition: join keys times columns. More keys become "
        "ranges, at most half of this number.",
        minimum=2,
    )
    condition_literals_jdbc: int = _setting(
        1000,
        "Maximum number of literals in all conditions on a JDBC table together. More keys of a "
        "column become at most 50 ranges.",
        minimum=2,
    )
    spark_scan: str = _setting(
        "auto",
        "How Spark reads the files: 'pinned' does not list them again, 'paths' uses only Spark's "
        "public API, 'auto' uses 'pinned' where it works.",
        choices=("auto", "pinned", "paths"),
    )

    show_progress: bool = _setting(
        True,
        "Whether calls that take longer than a second show their progress: in a notebook, or if "
        "standard error is a terminal.",
    )

    __repr__ = show

    def __new__(cls, **settings: Any) -> Self:
        """Create settings. An unknown name raises a ConfigError that suggests the nearest name."""
        for name in settings:
            if name not in cls.__dataclass_fields__:
                hint = did_you_mean(name, _names(), otherwise="available:")
                raise ConfigError(f"Unknown setting {name!r}.", hint=hint)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        given: Any = self.allowed_locations
        if isinstance(given, list):
            object.__setattr__(self, "allowed_locations", tuple(given))
        given = self.statistics_location
        if isinstance(given, os.PathLike):
            object.__setattr__(self, "statistics_location", os.fspath(given))
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
        """Return the settings from arguments, Spark configuration, environment and defaults.

        The first of these sources that sets a value wins.
        """
        resolved = resolve_settings(arguments, spark_conf=spark_conf, environ=environ)
        return cls(**{setting.name: setting.value for setting in resolved})


@cache  # Compiled on the first call, because this is slow and few programs need the pattern.
def _advice() -> re.Pattern[str]:
    """Return a pattern that finds advice on settings, in each form that hints and reports use."""
    names = "|".join(_names())
    return re.compile(
        rf"(?<![\w-])(?P<use>[Ss]et )(?P<set>{names})\b(?: to '?(?P<to>\w+)'?)?"
        rf"|(?<=[Rr]aise )(?P<raise>{names})\b"
        rf"|(?<![\w.(-])(?P<argument>{names})='(?P<value>\w+)'"
    )


def respelled(text: str, spelling: Callable[[str, str | None], str]) -> str:
    """Return a hint or a line of a report, in which settings are spelled as in its interface.

    Args:
        text: The text. Advice has the form ``raise max_partitions``, ``set spark_scan to 'auto'``
            or ``spark_scan='auto'``.
        spelling: Function that returns the spelling of a setting, from its name and its new value,
            which is None if the text does not name one.
    """

    def of(found: re.Match[str]) -> str:
        name = found["set"] or found["raise"] or found["argument"]
        verb = {"s": "use ", "S": "Use "}[found["use"][0]] if found["use"] else ""
        return verb + spelling(name, found["to"] or found["value"])

    return _advice().sub(of, text)


# help() shows the class docstring but not the metadata of fields, so add the field docs to it.
SplitConfig.__doc__ = "\n    ".join(
    [
        f"{cleandoc(SplitConfig.__doc__ or '')}\n\nAttributes:",
        *(f"{each.name}: {each.metadata['doc']}" for each in fields(SplitConfig)),
    ]
)


def resolve_settings(
    arguments: Mapping[str, Any] | None = None,
    *,
    spark_conf: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[ResolvedSetting]:
    """Return every setting with its value and source, in the order of :class:`SplitConfig`."""
    for name, given in (("arguments", arguments), ("spark_conf", spark_conf)):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(
                f"{name} is a {type(given).__name__}, not a mapping.",
                hint="pass settings by name, such as {'max_partitions': 10}.",
            )
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
            name = spec.name if source == "argument" else source
            value = _from_text(name, value, types[spec.name])
        resolved.append(ResolvedSetting(spec.name, value, source, spec.metadata["doc"]))
    return resolved


def refuse_other_than_config(config: object) -> None:
    """Reject an argument ``config`` that is neither a :class:`SplitConfig` nor None.

    Raises:
        ConfigError: if ``config`` has another type, such as a dict.
    """
    if config is not None and not isinstance(config, SplitConfig):
        raise ConfigError(
            f"config is a {type(config).__name__}, not a SplitConfig.",
            hint="pass config=splitlib.SplitConfig(max_partitions=10).",
        )


def _refuse_unknown(
    arguments: Iterable[str], spark_conf: Iterable[str], environ: Iterable[str]
) -> None:
    names = _names()
    # For each source: the given keys, the prefix of splitlib's keys, the keys of all settings, and
    # the form of the key for an option of a named catalog.
    sources = (
        (arguments, "", names, None),
        (
            spark_conf,
            SPARK_PREFIX,
            [SPARK_PREFIX + option_name(n) for n in names],
            f"{SPARK_CATALOG_PREFIX}NAME.OPTION",
        ),
        (
            environ,
            ENV_PREFIX,
            [ENV_CATALOGS_FILE, *(ENV_PREFIX + n.upper() for n in names)],
            f"{ENV_CATALOG_PREFIX}NAME__OPTION",
        ),
    )
    for given, prefix, known, of_catalog in sources:
        for key in given:
            if key in known or not key.startswith(prefix) or _is_of_catalog(key, of_catalog):
                continue
            if given is environ and _OF_KUBERNETES.search(key):
                continue
            hint = did_you_mean(key, known, otherwise="available:")
            if of_catalog is not None and "catalog" in key.lower():
                hint = f"an option of a catalog is written {of_catalog}."
            raise ConfigError(f"Unknown setting {key!r}.", hint=hint)


def _is_of_catalog(key: str, form: str | None) -> bool:
    """Return whether a key names a catalog and one of its options, as in ``form``."""
    if form is None:
        return False
    prefix, _, rest = form.partition("NAME")
    name, _, option = key.removeprefix(prefix).partition(rest.removesuffix("OPTION"))
    return key.startswith(prefix) and bool(name and option)


def _check(name: str, value: Any, declared: Any, metadata: Mapping[str, Any]) -> None:
    accepted = _kinds(declared)
    if float in accepted:
        accepted = (*accepted, int)
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
        raise ConfigError(f"{name} must be {_names_of(accepted)}, not {value!r}.")
    minimum, choices = metadata["minimum"], metadata["choices"]
    # The test is `not >=` instead of `<`, so that NaN is rejected too.
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
                hint="for example /data/sales or s3://bucket/sales, or 'none' for no limit.",
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
        return None if type(None) in accepted and text.lower() in ("", "none") else text
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
    raise ConfigError(
        f"{source} must be {_names_of(accepted)}, not {_shortened(text)!r}.",
        hint=_FORMS[accepted[0]],
    )


def _names_of(kinds: Iterable[Any]) -> str:
    return " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _names() -> list[str]:
    return [spec.name for spec in fields(SplitConfig)]


def setting_named(key: str) -> str | None:
    """Return the setting with the name ``key``, ignoring case, ``_`` and ``-``, or None."""
    plain = key.replace("_", "").replace("-", "").lower()
    return next((name for name in _names() if name.replace("_", "") == plain), None)


def option_name(name: str) -> str:
    """Return a setting's name in camel case, as in Spark settings and data source options."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)
