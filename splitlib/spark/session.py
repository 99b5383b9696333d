"""Read a session's splitlib and storage settings, detect session changes, and keep reports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from splitlib.checks import refuse_other_than_session
from splitlib.config import SPARK_CATALOG_PREFIX, SPARK_PREFIX
from splitlib.errors import ConfigError
from splitlib.hive.file_types import SETTINGS
from splitlib.model import ReadFormat
from splitlib.report import Report
from splitlib.spark import compat
from splitlib.spark.jvm.active_session import (
    all_settings,
    hadoop_settings,
    is_stopped,
    name_path,
    setting_names,
    temporary_names,
)
from splitlib.spark.jvm.file_index import pinned_roots
from splitlib.spark.jvm.gateway import analyzed_plan
from splitlib.spark.jvm.hadoop import HadoopFileSystem
from splitlib.spark.jvm.probe import internals_unavailable
from splitlib.spark.jvm.scala import scala_of
from splitlib.storage import CLOUDS, OptionsByProtocol
from splitlib.telemetry import reported

_HIDDEN: Final = "spark.sql.files.ignoredPathSegmentRegex"
_HIDDEN_BY_DEFAULT: Final = "^[._]"
_BY_POSITION: Final = "orc.force.positional.evolution"
# Settings that affect how Spark infers the schema of directories.
_OF_DIRECTORIES = (
    "spark.sql.caseSensitive",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.orc.mergeSchema",
    "spark.sql.parquet.mergeSchema",
    "spark.sql.sources.partitionColumnTypeInference.enabled",
    "spark.sql.timestampType",
)
_SQL: Final = "spark.sql."
# Prefixes of settings that change how a query runs, but, except for _OF_FILES, not its result.
# Spark does not store most of these settings in views either.
_HOW: Final = (
    "spark.sql.adaptive.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.cbo.",
    "spark.sql.codegen.",
    "spark.sql.execution.",
    "spark.sql.files.",
    "spark.sql.inMemoryColumnarStorage.",
    "spark.sql.join.",
    "spark.sql.optimizer.",
    "spark.sql.orc.",
    "spark.sql.parquet.",
    "spark.sql.shuffle.",
    "spark.sql.sources.parallelPartitionDiscovery.",
    "spark.sql.statistics.",
)
# Settings that change which files are read, and which columns and values they have.
_OF_FILES: Final = frozenset(
    {
        *_OF_DIRECTORIES,
        _HIDDEN,
        "spark.sql.files.archive.reader.enabled",
        "spark.sql.files.ignoreCorruptFiles",
        "spark.sql.files.ignoreInvalidPartitionPaths",
        "spark.sql.files.ignoreMissingFiles",
        "spark.sql.orc.impl",
        "spark.sql.parquet.binaryAsString",
        "spark.sql.parquet.datetimeRebaseModeInRead",
        "spark.sql.parquet.fieldId.read.enabled",
        "spark.sql.parquet.fieldId.read.ignoreMissing",
        "spark.sql.parquet.ignoreVariantAnnotation",
        "spark.sql.parquet.inferTimestampNTZ.enabled",
        "spark.sql.parquet.int96AsTimestamp",
        "spark.sql.parquet.int96RebaseModeInRead",
        "spark.sql.parquet.int96TimestampConversion",
        "spark.sql.parquet.reader.respectUnknownTypeAnnotation.enabled",
        "spark.sql.parquet.respectSummaryFiles",
    }
)


def active_session() -> SparkSession | None:
    """Return this thread's active session, the default session, or None if there is neither."""
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def refuse_other_than_query(spark: object, query: object) -> None:
    """Reject arguments of :func:`splitlib.sql` that are not a session and a text.

    Raises:
        ConfigError: for any other object.
    """
    refuse_other_than_session(spark, "splitlib.sql(spark, 'SELECT …')")
    if not isinstance(query, str):
        raise ConfigError(
            f"A query is a text, not a {type(query).__name__}.",
            hint="for a DataFrame, call splitlib.optimize.",
        )


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Return all ``spark.splitlib.*`` settings of the session.

    Raises:
        ConfigError: if the session is stopped. Spark would plan some queries in it, and fail later.
    """
    if isinstance(spark, SparkSession) and is_stopped(spark):
        raise ConfigError(
            "The Spark session is stopped.",
            hint="start a session with SparkSession.builder.getOrCreate(), and create the "
            "DataFrames again in it.",
        )
    if internals_unavailable(spark) is not None:
        return {k: v for k, v in compat.all_settings(spark).items() if k.startswith(SPARK_PREFIX)}
    names = [name for name in setting_names(spark) if name.startswith(SPARK_PREFIX)]
    return {name: str(spark.conf.get(name)) for name in names}


def every_setting(spark: SparkSession) -> dict[str, str]:
    """Return all settings of the session, including those of Spark, with unredacted values."""
    inside = internals_unavailable(spark) is None
    return all_settings(spark) if inside else compat.all_settings(spark)


def settings_of_directories(spark: SparkSession) -> dict[str, str]:
    """Return the session settings that affect how Spark infers a directory's columns and keys."""
    found = {name: spark.conf.get(name, None) for name in (*_OF_DIRECTORIES, *SETTINGS)}
    return {name: str(value) for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a session at the time when a query was planned."""

    catalog: str
    """Name of the current catalog."""
    database: str
    """Name of the current database."""
    settings: Mapping[str, str]
    """Settings that may change the result of a query."""
    temporary: Mapping[str, str]
    """Fingerprint of each temporary view, function and variable that the query may use, by name."""
    path: str
    """Databases in which Spark looks up unqualified names; empty if Spark does not support
    ``SET PATH``."""

    @classmethod
    def of(cls, spark: SparkSession, text: str = "") -> Self:
        """Return the current state of a session.

        Args:
            spark: The session.
            text: Text of a query or of conditions. Temporary views, functions and variables are
                included if their names occur in it.
        """
        inside = internals_unavailable(spark) is None
        settings = every_setting(spark)
        return cls(
            spark.catalog.currentCatalog(),
            spark.catalog.currentDatabase(),
            {name: value for name, value in settings.items() if _changes_meaning(name, text)},
            temporary_names(spark, text) if inside and text else {},
            name_path(spark) if inside and text else "",
        )

    def check(
        self,
        spark: SparkSession,
        text: str = "",
        *,
        catalog: bool = True,
        database: bool = True,
    ) -> None:
        """Check that the session has not changed since this state was recorded.

        Args:
            spark: The session.
            text: The text of the query or of the conditions, as for :meth:`of`.
            catalog: Whether to compare the current catalog.
            database: Whether to compare the current database.

        Raises:
            ConfigError: if the session has changed.
        """
        now = self.of(spark, text)
        moved = catalog and now.catalog != self.catalog
        if moved or (database and now.database != self.database):
            before, after = (f"`{s.catalog}`.`{s.database}`" for s in (self, now))
            raise ConfigError(
                f"The query was planned in {before}, but the current database is now {after}.",
                hint=f"run USE {before} before replan, or create the DataFrame again with full "
                "table names.",
            )
        if changed := _different(self.settings, now.settings):
            raise ConfigError(
                f"Settings have changed since the query was planned: {', '.join(changed)}.",
                hint="restore them before replan, or create the DataFrame again.",
            )
        if database and now.path != self.path:
            raise ConfigError(
                "Names without a database were looked up in "
                f"{self.path} when the query was planned, but are now looked up in {now.path}.",
                hint="restore it with SET PATH before replan, or create the DataFrame again with "
                "full table names.",
            )
        if changed := _different(self.temporary, now.temporary):
            raise ConfigError(
                "Temporary views, functions or variables were created, replaced or dropped since "
                f"the query was planned: {', '.join(changed)}.",
                hint="create the DataFrame again.",
            )


def _changes_meaning(name: str, text: str) -> bool:
    if name.startswith(_HOW):
        return name in _OF_FILES
    # Spark replaces ${name} in a query with the value of the setting.
    return name.startswith((SPARK_CATALOG_PREFIX, _SQL)) or "${" in text


def _different(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def storage_options_of(spark: SparkSession) -> OptionsByProtocol:
    """Return the fsspec options that correspond to the session's Hadoop settings.

    The options for S3 come from ``fs.s3a.*``, for Azure from ``fs.azure.*``, and for Google from
    ``fs.gs.*``. Settings without a value are omitted, so that the client applies its defaults. S3
    buckets and Azure accounts with their own settings get their own options.

    For schemes that fsspec does not support, such as HDFS without Hadoop's libraries, the result
    uses the Hadoop filesystems of a classic session.
    """
    clouds = tuple(dict.fromkeys(CLOUDS.values()))
    names = [name for cloud in clouds for name in cloud.hadoop_names]
    prefixes = tuple(prefix for cloud in clouds for prefix in cloud.hadoop_prefixes)
    settings = hadoop_settings_of(spark, names, prefixes)
    filesystem = HadoopFileSystem(spark) if internals_unavailable(spark) is None else None
    found = {
        store: own.to_fsspec()
        for cloud in clouds
        for store, own in cloud.from_hadoop(settings).items()
    }
    # Empty options of a bucket or account are kept, because they override the general options.
    found = {store: options for store, options in found.items() if options or "://" in store}
    return OptionsByProtocol(found, filesystem=filesystem)


def hadoop_settings_of(
    spark: SparkSession, names: Collection[str], prefixes: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the session's Hadoop settings with certain names or prefixes, if they are set.

    Without access to Spark's internals, settings from files such as ``hive-site.xml`` are missing.
    """
    if internals_unavailable(spark) is None:
        return hadoop_settings(spark, names, prefixes)
    known = compat.all_settings(spark)
    hadoop = "spark.hadoop."
    below = {k.removeprefix(hadoop): v for k, v in known.items() if k.startswith(hadoop)}
    return {k: v for k, v in (below | known).items() if k in names or k.startswith(prefixes)}


def refuse_other_names(spark: SparkSession) -> None:
    """Reject a session in which Spark skips different files than splitlib does.

    Which file names Spark skips is a setting since Spark 4.3. splitlib supports only its default.

    Raises:
        ConfigError: if the setting has another value than its default.
    """
    if spark.conf.get(_HIDDEN, _HIDDEN_BY_DEFAULT) != _HIDDEN_BY_DEFAULT:
        raise ConfigError(
            f"The session sets {_HIDDEN}, so Spark skips different files than splitlib does.",
            hint="unset it, or read the table with Spark.",
        )


def is_by_position(spark: SparkSession, form: ReadFormat) -> bool:
    """Return whether Spark's ORC reader finds columns by position instead of name.

    Spark still looks up the statistics for a condition by name, and may find those of another
    column. So a condition may drop rows that match it.
    """
    if form.name != "orc":
        return False
    given = hadoop_settings_of(spark, [_BY_POSITION]) | dict(form.options)
    return given.get(_BY_POSITION, "false").lower() == "true"


plan_again_by: WeakKeyDictionary[DataFrame, Callable[[DataFrame], DataFrame]] = WeakKeyDictionary()
"""For each planned DataFrame, the function that plans it again. Command results have no entry."""
reports: WeakKeyDictionary[DataFrame, Report] = WeakKeyDictionary()
"""The report on each planned DataFrame."""
_of_scans: Final[dict[str, tuple[frozenset[str], Report]]] = {}
"""The latest planned DataFrame for each pinned scan (a scan of a fixed list of files), by the
scan's root directory. An entry contains the roots of all pinned scans in that DataFrame, and its
report. The report also applies to DataFrames that are derived from it."""
_MOST_SCANS: Final = 1_000


def remember(
    df: DataFrame,
    report: Report,
    plan_again: Callable[[DataFrame], DataFrame] | None = None,
    *,
    is_new: bool = True,
) -> None:
    """Keep a report for :func:`splitlib.explain`, and the function for :func:`splitlib.replan`.

    Args:
        df: The planned DataFrame.
        report: Report on the planning of ``df``.
        plan_again: Function that receives ``df`` and plans its query again, or None if the query
            cannot be planned again. The function must not hold a reference to ``df``, because that
            would keep both in memory forever.
        is_new: Whether the scans in ``df`` were planned for ``df`` itself, and not for a DataFrame
            from which it is derived.
    """
    reports[df] = report
    reported(lambda: report)
    if plan_again is not None:
        plan_again_by.setdefault(df, plan_again)
    roots = _pinned_roots(df) if is_new else frozenset()
    _of_scans.update(dict.fromkeys(roots, (roots, report)))
    for root in list(_of_scans)[: max(0, len(_of_scans) - _MOST_SCANS)]:
        _of_scans.pop(root, None)


def reports_of_scans(df: DataFrame) -> dict[str, Report]:
    """Return the reports on the DataFrames from which ``df`` is derived, by pinned scan root.

    The oldest reports may be missing, because the number of remembered scans is limited.
    """
    roots = _pinned_roots(df)
    # Each root is looked up only once, because another thread may drop the entry in between.
    found = filter(None, map(_of_scans.get, roots))
    return {root: report for of_one, report in found if of_one <= roots for root in of_one}


def table_read_by(name: str) -> str:
    """Return the name of the table that a pinned scan reads, by the scan's root directory.

    If ``name`` is not the root directory of a remembered scan, it is returned unchanged.
    """
    _, report = _of_scans.get(name, ((), Report(name)))
    tables = {one.table for one in report.scans or (report,)}
    return tables.pop() if len(tables) == 1 else name


def _pinned_roots(df: DataFrame) -> frozenset[str]:
    """Return the root directories of a query's pinned scans. They are generated, unique paths."""
    if internals_unavailable(df.sparkSession) is not None:
        return frozenset()
    return pinned_roots(scala_of(df.sparkSession), analyzed_plan(df))
