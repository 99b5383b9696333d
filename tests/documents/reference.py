"""Pages of the reference: public names, settings, options of connectors, errors."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import splitlib
from splitlib import coordination, errors
from splitlib.config import ENV_PREFIX, SPARK_PREFIX, SplitConfig, option_name
from splitlib.spark.session_catalog import SessionConnector
from tests.documents.examples import ROOT

_GENERATED: Final = "<!-- written by python -m tests.documents -->\n\n"
_GROUPS: Final = {
    "Queries": ("sql", "optimize", "explain", "replan", "freeze"),
    "The reader": ("read", "TableReader"),
    "Conditions": ("condition", "spark.join_condition.JoinCondition", "merge_condition"),
    "Reports": (
        "Report",
        "report.FilterUse",
        "report.Count",
        "report.PartitionRange",
        "ScanMetrics",
    ),
    "Whole workloads and tables": (
        "audit",
        "spark.audit.Audit",
        "spark.audit.AuditedQuery",
        "spark.audit.AuditedTable",
        "spark.audit.AuditedJoin",
        "analyze",
        "enumeration.analyze.Analysis",
    ),
    "The installation": ("doctor", "diagnosis.doctor.Diagnosis", "diagnosis.machine.Finding"),
    "Tables and files without Spark": (
        "load_table",
        "Table",
        "DynamicFileEnumerator",
        "paths",
        "FileSplit",
    ),
    "Join keys as filters": (
        "DynamicFilteringData",
        "DynamicFilteringDataCollector",
        "DynamicFilteringEvent",
    ),
    "Several readers": tuple(f"coordination.{name}" for name in coordination.__all__),
    "Data source": ("SplitlibDataSource",),
    "Connectors": ("connector_names", "register"),
    "Settings": ("SplitConfig",),
    "Tests with a metastore": ("testing.HiveMetastore",),
}
# The page of settings describes the fields, and the page of errors the error.
_ELSEWHERE: Final = ("SplitConfig",)
_NOT_SHOWN: Final = ("SplitlibError", "__version__")
_ADVICE: Final = tomllib.loads(Path(__file__).with_name("advice.toml").read_text("utf-8"))


def api_page() -> str:
    """Return the page of all public names, for mkdocstrings."""
    known = {name.rpartition(".")[2] for names in _GROUPS.values() for name in names}
    others = tuple(n for n in splitlib.__all__ if n not in known and n not in _NOT_SHOWN)
    groups = {**_GROUPS, "Other names": others} if others else _GROUPS
    lines = [
        "# Functions and classes",
        "",
        "The names of `splitlib` that programs may use. [Errors](errors.md), "
        "[settings](settings.md), [options of connectors and of the data source](options.md) and "
        "the [interface of connectors](spi.md) have pages of their own. Names that need Spark are "
        "imported at their first use, so the others work without PySpark. `splitlib.ReadFormat` is "
        "on the page of the interface. `splitlib.ScanReport` is the former name of "
        "`splitlib.Report`.",
        "",
    ]
    for title, names in groups.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += [f"::: splitlib.{name}"]
            if name in _ELSEWHERE:
                lines += ["    options: {members: [resolve]}"]
            lines += [""]
    return _GENERATED + "\n".join(lines)


def settings_page() -> str:
    """Return the page of all settings, with the three spellings of each."""
    lines = [
        "# Settings",
        "",
        "All settings have defaults, and nobody has to set one to get the right rows. Each can "
        "be set in three "
        "places. The first place that sets it wins:",
        "",
        "1. an argument: `splitlib.read(spark).table(…).config(max_partitions=10)` for one read, "
        '`splitlib.SplitConfig.resolve({"max_partitions": 10})` without Spark, '
        "`--set max_partitions=10` on the command line, "
        '`.option("maxPartitions", 10)` of the data source;',
        '2. the Spark session, in camel case: `spark.conf.set("spark.splitlib.maxPartitions", '
        '"10")`, or '
        "`--conf spark.splitlib.maxPartitions=10` of `spark-submit`. This is the place for "
        "`splitlib.sql` and "
        "`splitlib.optimize`, which take no settings as arguments;",
        "3. the environment of the driver, in upper case: `SPLITLIB_MAX_PARTITIONS=10`.",
        "",
        "A `SplitConfig(max_partitions=10)` that is passed as `config` is complete. Its other "
        "settings have their defaults, and the session and the environment are not read. A table "
        "that is opened with it also ignores `SPLITLIB_ALLOWED_LOCATIONS`. `SplitConfig.resolve` "
        "combines the given settings with those of the environment.",
        "",
        "Sizes in text may have a unit (`64m`, `1g`). An unknown name raises `ConfigError` and "
        "suggests the nearest "
        "one; `splitlib.sql` and `splitlib.optimize` log it instead, and do not prune. A "
        "misspelled or malformed `allowed_locations` raises `ConfigError` there, too. For an "
        "option of the data source, Spark [wraps](errors.md) the error. "
        "`splitlib config` prints every setting, its value and where the value comes from.",
        "",
        "Not a setting: `SPLITLIB_CATALOGS_FILE` names a file with "
        "[named catalogs](../guides/catalogs.md#name-a-catalog-once).",
        "",
    ]
    for spec in fields(SplitConfig):
        minimum, choices = spec.metadata["minimum"], spec.metadata["choices"]
        limits = f"Minimum: {minimum:,}. " if minimum is not None else ""
        limits += f"One of {', '.join(f'`{choice}`' for choice in choices)}. " if choices else ""
        lines += [
            f"## {spec.name}",
            "",
            spec.metadata["doc"].replace("*", "\\*"),
            "",
            "| place | spelling |",
            "|---|---|",
            f"| argument | `{spec.name}` |",
            f"| Spark | `{SPARK_PREFIX}{option_name(spec.name)}` |",
            f"| environment | `{ENV_PREFIX}{spec.name.upper()}` |",
            "",
            f"Type: `{spec.type}`{_unit(spec.name)}. {limits}Default: {_default(spec.default)}.",
            "",
        ]
    return _GENERATED + "\n".join(lines)


def _unit(name: str) -> str:
    """Return the unit that a name of a setting or option ends with, as words."""
    last = name.rpartition("_")[2]
    return f", in {last}" if last in ("bytes", "seconds") else ""


def _default(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, int) and not isinstance(value, bool) and value >= 2**20:
        return f"`{value}`" + (f" ({value >> 20:,} MiB)" if value % 2**20 == 0 else "")
    return f"`{value}`"


def options_page() -> str:
    """Return the page of the options of each connector, from the docstrings of the classes."""
    lines = [
        "# Options of connectors",
        "",
        'In Python, options are arguments: `.table("db.t", connector="hive", uri="thrift://…")`, '
        "and the same for "
        "`splitlib.load_table`. On the command line write `-c hive -o KEY=VALUE`, for a named "
        "catalog "
        "`spark.splitlib.catalog.NAME.KEY` or `SPLITLIB_CATALOG__NAME__KEY`, and for the data "
        "source "
        '`.option("KEY", VALUE)`. Options that are mappings are written with a dot in text: '
        "`storage_options.key=value`, `read_options.header=true`. In names of environment "
        "variables, a dot is written as two underscores, and in properties with a dot, a dash as "
        "one: "
        "`SPLITLIB_CATALOG__LAKE__S3__ACCESS_KEY_ID`. An empty default means that the option is "
        "unset; then the last column says what applies.",
        "",
    ]
    for name, class_ in sorted(_connectors().items()):
        lines += [f"## {name}", "", *_options_of(class_)]
    lines += ['## Data source: `format("splitlib")`', "", *_options_of(splitlib.SplitlibDataSource)]
    return _GENERATED + "\n".join(lines)


def _connectors() -> dict[str, type]:
    """Return the connectors of this repository, even if a test has registered others."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options.entry_points"]["splitlib.connectors"].split("\n")
    found: dict[str, type] = {"session": SessionConnector}
    for name, _, target in (line.partition(" = ") for line in lines if line):
        module, _, class_ = target.partition(":")
        found[name] = getattr(importlib.import_module(module), class_)
    return found


def _options_of(class_: type) -> Iterator[str]:
    """Yield the lines on one class: its first sentences, and a table of its options."""
    text = inspect.getdoc(class_) or ""
    before, _, after = text.partition("\nOptions:\n")
    yield _prose(before)
    yield ""
    if after:
        section = re.split(r"^\S", after, maxsplit=1, flags=re.MULTILINE)[0]
        yield "| option | type | default | meaning |"
        yield "|---|---|---|---|"
        for entry in re.split(r"^    (?=\S)", section, flags=re.MULTILINE)[1:]:
            yield _option_row(entry)
        yield ""
        rest = after[len(section) :].strip()
        if rest and not re.match(r"[A-Z]\w+:\n", rest):
            yield _prose(rest)
            yield ""


def _option_row(entry: str) -> str:
    """Return the row of one option, from its lines ``name (type, default value): meaning``."""
    found = re.fullmatch(r"(\S+) \(([^,()]+)(?:, ([^()]+))?\): (.*)", entry, re.DOTALL)
    assert found is not None, f"no type: {entry}"
    name, kind, default, meaning = found.groups(default="")
    given = re.sub(r"^default (.*)", r"`\1`", default)
    cells = (f"`{name}`", f"`{kind}`", given, _prose(meaning))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def errors_page() -> str:
    """Return the page of all errors, with what to do about each."""
    lines = [
        "# Errors",
        "",
        "Every error is a `splitlib.SplitlibError`, and also the built-in error that it "
        "resembles. Its text names "
        "the connector and the table, and ends with a hint where there is one. Credentials are "
        "removed from it. All "
        "classes can be imported from `splitlib` and from `splitlib.errors`.",
        "",
        'Through `format("splitlib")`, and in the tasks of a query, Spark raises an error of its '
        "own class instead. Its text contains the message of splitlib.",
        "",
        "| error | is also | means | what to do |",
        "|---|---|---|---|",
    ]
    for name in ("SplitlibError", *(n for n in errors.__all__ if n != "SplitlibError")):
        class_ = getattr(errors, name)
        builtin = next(c.__name__ for c in class_.__mro__ if c.__module__ == "builtins")
        above = class_.__bases__[0].__name__
        also = (
            f"`{builtin}`" if above in ("SplitlibError", "Exception") else f"`{above}`, `{builtin}`"
        )
        meaning = _prose((inspect.getdoc(class_) or "").partition("\n\n")[0])
        advice = _ADVICE.get(name, "")
        lines += [f"| `{name}` | {also} | {meaning} | {advice} |"]
    return _GENERATED + "\n".join(lines) + "\n"


def _prose(text: str) -> str:
    """Return text of a docstring as Markdown: one line per paragraph, without roles."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def advised() -> set[str]:
    """Return the names of the errors that the page gives advice for."""
    return set(_ADVICE)
