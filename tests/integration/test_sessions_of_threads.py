"""splitlib uses the settings of the right session in every thread, even with several sessions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

import splitlib
from splitlib.remote.calls import Call, Workers, working_on
from splitlib.spark.compat import to_arrow
from splitlib.spark.jvm.active_session import active
from splitlib.testing import HiveMetastore
from tests.support.abilities import register_data_source

pytestmark = pytest.mark.spark

SETTINGS: Final = [
    {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.caseSensitive": "false",
        "spark.sql.parser.escapedStringLiterals": "false",
    },
    {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.caseSensitive": "true",
        "spark.sql.parser.escapedStringLiterals": "true",
    },
]
# Each of these literals and casts has a different value under the settings of the two sessions.
COLUMNS: Final = (
    r"timestamp'2024-01-01 00:00:00' AS t, 'a\nb' AS s, try_cast(f.v AS int) + 0 AS v, f.at"
)
JOIN: Final = "FROM st_fact f JOIN st_dim d ON f.at = d.at WHERE d.name = 'one'"
QUERY: Final = f"SELECT {COLUMNS} {JOIN}"
CONDITION: Final = r"at <= timestamp'2024-01-02 00:00:00' AND v <> 'a\nb'"
TABLE: Final = "default.st_fact"


@pytest.fixture(scope="module")
def sessions(spark: SparkSession) -> Iterator[list[SparkSession]]:
    """Create tables with timestamps, and return two sessions with different settings."""
    spark.sql("CREATE TABLE st_fact (v string, at timestamp) USING parquet PARTITIONED BY (at)")
    days = ", ".join(f"('{i}', timestamp'2024-01-0{i} 00:00:00')" for i in range(1, 6))
    spark.sql(f"INSERT INTO st_fact VALUES {days}")
    spark.sql("CREATE TABLE st_dim (at timestamp, name string) USING parquet")
    made = []
    for settings in SETTINGS:
        session = spark.newSession()
        for name, value in settings.items():
            session.conf.set(name, value)
        made.append(session)
    # For each session, the dimension has midnight in the session's time zone.
    midnights = [s.sql("SELECT timestamp_ltz'2024-01-03 00:00:00' AS at") for s in made]
    for midnight in midnights:
        midnight.selectExpr("at", "'one'").write.insertInto("st_dim")
    yield made
    spark.sql("DROP TABLE st_fact")
    spark.sql("DROP TABLE st_dim")


class Outcome(NamedTuple):
    """The parts of a result that the tests compare."""

    types: str
    rows: list[str]


def outcome(df: DataFrame) -> Outcome:
    """Collect a DataFrame. Return its schema and its rows as text."""
    rows = to_arrow(df).to_pylist()
    return Outcome(df.schema.simpleString(), sorted(map(repr, rows)))


def fact_of(session: SparkSession) -> DataFrame:
    """Return the rows of the fact that splitlib's reader should return, read with plain Spark."""
    keys = dim_of(session)
    return session.table(TABLE).where(CONDITION).join(keys, "at", "semi").select("v", "at")


def dim_of(session: SparkSession) -> DataFrame:
    """Return the rows of the dimension whose timestamps are the join keys."""
    return session.table("default.st_dim").where("name = 'one'")


def by_condition(session: SparkSession, splitting: bool, write: Callable[..., Any]) -> Outcome:
    """Return the rows of the fact that splitlib's condition keeps, or plain Spark's semi-join."""
    if not splitting:
        return outcome(session.table(TABLE).join(dim_of(session), "at", "semi").select("v", "at"))
    found = write(dim_of(session), on="at")
    text = found if isinstance(found, str) else found.sql
    return outcome(session.table(TABLE).where(text).select("v", "at"))


def created(session: SparkSession, run: Callable[[str], Any]) -> Outcome:
    """Create a table from the query by calling ``run``. Return its rows, and drop it."""
    name = f"st_made_{threading.get_ident()}"
    run(f"CREATE TABLE {name} USING parquet AS {QUERY}")
    try:
        return outcome(session.table(name))
    finally:
        session.sql(f"DROP TABLE {name}")


def partitions(session: SparkSession, splitting: bool) -> list[str]:
    """Return the partition values of the fact, read with splitlib or with plain Spark."""
    if not splitting:
        rows = to_arrow(session.table(TABLE).select("at").distinct())
        return sorted(repr(at.astimezone(UTC)) for at in rows["at"].to_pylist())
    with splitlib.load_table(TABLE, spark=session) as table:
        zone = session.conf.get("spark.sql.session.timeZone")
        splits = splitlib.DynamicFileEnumerator(table.in_time_zone(str(zone))).enumerate_splits()
        return sorted(repr(split.partition_values["at"].astimezone(UTC)) for split in splits)


def by_data_source(session: SparkSession, splitting: bool, uri: str) -> Outcome:
    """Return the rows of the fact, read with splitlib's data source or with plain Spark."""
    if not splitting:
        return outcome(session.table(TABLE).select("v", "at"))
    register_data_source(session)
    reader = session.read.format("splitlib").options(connector="hive", uri=uri)
    zone = str(session.conf.get("spark.sql.session.timeZone"))
    return outcome(reader.option("timeZone", zone).load(TABLE).select("v", "at"))


# Functions that return a result of splitlib, or the expected result of plain Spark if ``splitting``
# is False. The keys are names of public functions.
TRIALS: Final[dict[str, Callable[[SparkSession, bool], Any]]] = {
    "audit": lambda session, splitting: (
        [table.partitions.matched for table in splitlib.audit(session, QUERY).queries[0].tables]
        if splitting
        else [session.sql(QUERY).select("at").distinct().count()]
    ),
    "condition": lambda session, splitting: by_condition(session, splitting, splitlib.condition),
    "explain": lambda session, splitting: (
        [scan.partitions.matched for scan in splitlib.explain(session.sql(QUERY)).scans]
        if splitting
        else [session.sql(QUERY).select("at").distinct().count()]
    ),
    "freeze": lambda session, splitting: outcome(
        splitlib.freeze(session.sql(QUERY)) if splitting else session.sql(QUERY)
    ),
    "merge_condition": lambda session, splitting: by_condition(
        session, splitting, splitlib.merge_condition
    ),
    "optimize": lambda session, splitting: outcome(
        splitlib.optimize(session.sql(QUERY)) if splitting else session.sql(QUERY)
    ),
    "read": lambda session, splitting: outcome(
        splitlib.read(session)
        .table(TABLE)
        .where(CONDITION)
        .filtered_by(dim_of(session), on="at")
        .load()
        .join(dim_of(session), "at", "semi")
        .select("v", "at")
        if splitting
        else fact_of(session)
    ),
    "replan": lambda session, splitting: outcome(
        splitlib.replan(splitlib.sql(session, QUERY)) if splitting else session.sql(QUERY)
    ),
    "sql": lambda session, splitting: outcome(
        splitlib.sql(session, QUERY) if splitting else session.sql(QUERY)
    ),
    "a command": lambda session, splitting: created(
        session, (lambda text: splitlib.sql(session, text)) if splitting else session.sql
    ),
    "load_table": partitions,
}


def in_fresh_threads(*works: Callable[[], Any]) -> list[Any]:
    """Run functions at the same time, each in its own new thread. Return their results."""
    together = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        together.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


# Public names that ``TRIALS`` does not contain, with the reason.
NOT_TRIED: Final = {
    **dict.fromkeys(["connector_names", "on_report", "register"], "a registry of the process"),
    "analyze": "reads the bounds that files store, which do not depend on settings",
    **dict.fromkeys(["DynamicFileEnumerator", "Table"], "the trial of load_table uses both"),
    "doctor": "checks a session, and reads no table",
    "paths": "lists the files of an enumerator",
    "SplitlibDataSource": "has a separate test",
    "TableReader": "the trial of read uses it",
    "DynamicFileSplitEnumerator": "assigns planned splits, without Spark",
    **dict.fromkeys(
        [
            "DynamicFilteringData",
            "DynamicFilteringDataCollector",
            "FileSplit",
            "Report",
            "SplitConfig",
        ],
        "a value",
    ),
}


@pytest.mark.newest_spark  # Spark 3.5 has no data sources in Python
def test_every_public_function_is_tried() -> None:
    public = {name: getattr(splitlib, name) for name in splitlib.__all__}
    wanted = {
        name
        for name, value in public.items()
        if callable(value) and not (isinstance(value, type) and issubclass(value, Exception))
    }
    tried = TRIALS.keys() & wanted
    assert tried | NOT_TRIED.keys() == wanted
    assert not tried & NOT_TRIED.keys()


def compare(sessions: list[SparkSession], trial: Callable[[SparkSession, bool], Any]) -> None:
    """Run a trial for each session, in new threads and in this one. Compare with plain Spark."""
    plain = [trial(session, False) for session in sessions]
    found = in_fresh_threads(*(lambda s=session: trial(s, True) for session in sessions))
    assert found == plain
    # In this thread, at most one of the sessions is the active one.
    here = [trial(session, True) for session in sessions]
    assert here == plain


@pytest.mark.parametrize("name", TRIALS)
def test_two_sessions_in_fresh_threads(sessions: list[SparkSession], name: str) -> None:
    compare(sessions, TRIALS[name])


def test_the_data_source(sessions: list[SparkSession], metastore: HiveMetastore) -> None:
    """The data source plans and reads in processes that do not have a session."""
    compare(sessions, partial(by_data_source, uri=metastore.uri))


def test_only_a_pool_keeps_its_session(sessions: list[SparkSession]) -> None:
    """A call within a deadline may run in the user's thread, whose session must come back."""
    new_york, tokyo = sessions
    jvm: Any = new_york._jvm

    def zone(session: SparkSession | None = None) -> str:
        with active(session):
            return str(jvm.org.apache.spark.sql.internal.SQLConf.get().sessionLocalTimeZone())

    with active(new_york):
        with working_on(Call(60)):
            assert zone(tokyo) == "Asia/Tokyo"
        assert zone() == "America/New_York"
    with Workers(1, "splitlib-test") as workers:
        found = list(workers.map(zone, [new_york, tokyo, new_york]))
    assert found == ["America/New_York", "Asia/Tokyo", "America/New_York"]


def test_a_relation_is_read_with_the_settings_of_its_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Another session may query it, for example as a global temporary view."""
    here, there, root = spark.newSession(), spark.newSession(), str(tmp_path / "moments")
    there.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    rows = [(f"2024-01-0{day} 00:00:00", day) for day in range(1, 6)]
    spark.createDataFrame(rows, "t string, k int").write.partitionBy("k").json(root)
    relation = there.read.schema("t timestamp, k int").json(root)
    relation.createGlobalTempView("st_moments")
    try:
        query = "SELECT unix_seconds(t) AS t FROM global_temp.st_moments WHERE k IN {keys}"
        query = query.format(keys="(SELECT id FROM RANGE(9) WHERE id = 3)")
        found = splitlib.sql(here, query)
        (scan,) = splitlib.explain(found).scans
        assert scan.partitions.matched == 1
        assert found.collect() == here.sql(query).collect()
    finally:
        spark.catalog.dropGlobalTempView("st_moments")
