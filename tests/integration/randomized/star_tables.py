"""Small tables for random star joins, with values for which joins are often wrong.

Such values are NaN, 0.0 and -0.0, text that is equal only under a collation, numbers as text, and
timestamps near midnight or near a clock change. Some tables have files in unusual locations.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from benchmarks.tpcds.settings import changed
from tests.support.abilities import without_collations

_FLOAT = "element_at(array(double('NaN'), -0.0D, 0.0D, 1.0D, 2.5D, 2.0D), CAST({} % 6 + 1 AS int))"
_CASE = "element_at(array('g1', 'G1', 'g1 ', 'g2', 'G2 ', 'g3'), CAST({} % 6 + 1 AS int))"
_TEXT_NUMBER = "element_at(array('1', '01', '1.0', '2', ' 2', '5', 'x'), CAST({} % 7 + 1 AS int))"
# Local times in New York. Some of them are midnight in UTC or in India, others near clock changes.
_ZONELESS = (
    "element_at(array(TIMESTAMP_NTZ'2020-02-27 00:00:00', TIMESTAMP_NTZ'2020-02-27 19:00:00',"
    " TIMESTAMP_NTZ'2020-02-27 13:30:00', TIMESTAMP_NTZ'2020-02-28 00:00:00',"
    " TIMESTAMP_NTZ'2020-03-08 02:30:00', TIMESTAMP_NTZ'2020-03-08 03:30:00',"
    " TIMESTAMP_NTZ'2019-11-03 01:30:00'), CAST({} % 7 + 1 AS int))"
)

STATEMENTS = (
    """CREATE TABLE r_int USING parquet PARTITIONED BY (k) AS
       SELECT id AS v, id % 4 AS a, CAST(id % 9 AS int) AS k FROM range(0, 72, 1, 1)
       UNION ALL SELECT 500, 1, NULL""",
    """CREATE TABLE r_two USING parquet PARTITIONED BY (s, k) AS
       SELECT id AS v, id % 5 AS a, nullif(concat('g', id % 4), 'g3') AS s,
              CAST(id % 3 AS bigint) AS k FROM range(0, 48, 1, 1)""",
    """CREATE TABLE r_date USING orc PARTITIONED BY (d) AS
       SELECT id AS v, id % 3 AS a, date_add(DATE'2020-02-26', CAST(id % 7 AS int)) AS d
       FROM range(0, 42, 1, 1)""",
    "CREATE TABLE r_text (v bigint, a bigint) PARTITIONED BY (k int) STORED AS textfile",
    "INSERT INTO r_text SELECT id, id % 3, CAST(id % 8 AS int) FROM range(0, 40, 1, 1)",
    f"""CREATE TABLE r_float USING parquet PARTITIONED BY (f) AS
       SELECT id AS v, id % 3 AS a, CAST({_FLOAT.format("(id + 2)")} AS float) AS x,
              {_FLOAT.format("id")} AS f FROM range(0, 24, 1, 1) WHERE id % 6 != 1
       UNION ALL SELECT 500, 1, 1, NULL""",
    # Within a task, Spark is inconsistent about whether 0.0 and -0.0 are one partition. So a
    # separate statement adds -0.0.
    "INSERT INTO r_float SELECT id, id % 3, -0.0, -0.0D FROM range(30, 33, 1, 1)",
    """CREATE TABLE r_case (v bigint, a bigint, lc string COLLATE UTF8_LCASE,
         ci string COLLATE UNICODE_CI, c string) USING parquet PARTITIONED BY (c)""",
    f"""INSERT INTO r_case SELECT id, id % 3, {_CASE.format("(id + 1)")},
              {_CASE.format("(id + 2)")},
              trim({_CASE.format("id")}) || if(id % 5 = 4, ' x', '') FROM range(0, 24, 1, 1)
       UNION ALL SELECT 500, 1, 'g1', 'g1', NULL""",
    f"""CREATE TABLE r_time USING parquet PARTITIONED BY (t) AS
       SELECT id AS v, id % 3 AS a, {_ZONELESS.format("(id + 1)")} AS z,
              date_add(DATE'2020-02-26', CAST(id % 4 AS int)) AS d,
              CAST({_ZONELESS.format("id")} AS timestamp) AS t FROM range(0, 28, 1, 1)""",
    f"""CREATE TABLE r_zone USING orc PARTITIONED BY (z) AS
       SELECT id AS v, id % 3 AS a, CAST({_ZONELESS.format("(id + 1)")} AS timestamp) AS t,
              {_ZONELESS.format("id")} AS z FROM range(0, 28, 1, 1)""",
    f"""CREATE TABLE r_dec USING parquet PARTITIONED BY (m) AS
       SELECT id AS v, id % 3 AS a, {_TEXT_NUMBER.format("id")} AS q,
              CAST(id % 8 * 0.5 AS decimal(6, 2)) AS m FROM range(0, 32, 1, 1)""",
    f"""CREATE TABLE r_num USING parquet PARTITIONED BY (q) AS
       SELECT id AS v, id % 3 AS a, CAST(id % 8 * 0.5 AS decimal(6, 2)) AS m,
              {_TEXT_NUMBER.format("id")} AS q FROM range(0, 28, 1, 1)""",
    """CREATE TABLE r_root USING parquet PARTITIONED BY (k) AS
       SELECT id AS v, id % 3 AS a, CAST(id % 6 AS int) AS k FROM range(0, 24, 1, 1)""",
    """CREATE TABLE r_glob (v bigint, a bigint, k int) USING parquet PARTITIONED BY (k)
       OPTIONS (pathGlobFilter 'nothing*', modifiedBefore '2001-01-01T00:00:00')""",
    "INSERT INTO r_glob SELECT id, id % 3, CAST(id % 6 AS int) FROM range(0, 24, 1, 1)",
    """CREATE TABLE r_wide USING parquet PARTITIONED BY (k) AS
       SELECT id AS v, id % 3 AS a, CAST(id % 5 AS double) AS f, CAST(id % 4 AS int) AS k
       FROM range(0, 24, 1, 1)""",
    f"""CREATE TABLE r_dim USING parquet AS
       SELECT CAST(id % 12 AS int) AS id, CAST(id % 4 AS int) AS grp, concat('g', id % 5) AS s,
              date_add(DATE'2020-02-24', CAST(id AS int)) AS d, {_FLOAT.format("id")} AS f,
              {_CASE.format("id")} AS c, CAST({_ZONELESS.format("id")} AS timestamp) AS t,
              {_ZONELESS.format("id")} AS z, CAST(id % 7 * 0.5 AS decimal(8, 3)) AS m,
              {_TEXT_NUMBER.format("id")} AS q FROM range(0, 16, 1, 1)
       UNION ALL SELECT NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL""",
    """CREATE TABLE r_group (grp int, s string, id int, d date, f float,
         lc string COLLATE UTF8_LCASE, ci string COLLATE UNICODE_CI) USING parquet""",
    f"""INSERT INTO r_group SELECT CAST(id AS int), concat('g', id), CAST(id * 2 AS int),
              date_add(DATE'2020-02-26', CAST(id AS int)), {_FLOAT.format("id")},
              {_CASE.format("id")}, {_CASE.format("id")} FROM range(0, 4, 1, 1)""",
)
NAMES = tuple(s.split()[2] for s in STATEMENTS if s.startswith("CREATE"))
DIRECTORY, _DIRECTORY_OF = "r_dir", "r_int"
"""Name of a view that reads the directory of the table ``r_int`` by its path."""
# Names of views over sources whose files splitlib does not list: a JDBC table, and a directory that
# a Spark V2 source reads.
DATABASE, _FILES = "r_jdbc", "r_v2"
_WITH_OTHER_SETTINGS = {
    "r_seen": (
        {"spark.sql.session.timeZone": "Asia/Kolkata"},
        "SELECT v, a, CAST(t AS timestamp_ntz) AS z, t, CAST(t AS date) AS d FROM r_time",
    ),
    "r_lax": (
        {"spark.sql.ansi.enabled": "false"},
        "SELECT v, a, m, CAST(q AS int) AS k FROM r_num",
    ),
}
"""Settings of the session while a view is created, and its query. The view keeps the settings."""
VIEWS = frozenset({DIRECTORY, DATABASE, _FILES, *_WITH_OTHER_SETTINGS})
_DATABASE = """SELECT id AS v, id % 3 AS a, CAST(id % 8 * 0.5 AS decimal(6, 2)) AS m,
       date_add(DATE'2020-02-26', CAST(id % 7 AS int)) AS d,
       CAST(nullif(id % 9, 8) AS int) AS k FROM range(0, 40, 1, 1)"""
_URL = "jdbc:derby:memory:randomized;create=true"
_DRIVER = {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}

# A kind is a letter: n for whole numbers, m for decimals, f for doubles and floats, s for text, c
# for text in mixed case, l for collated text in mixed case, q for numbers as text, d for dates, t
# for timestamps, z for timestamps without time zone.
COLUMNS = {
    "r_int": {"v": "n", "a": "n", "k": "n"},
    "r_dir": {"v": "n", "a": "n", "k": "n"},
    "r_jdbc": {"v": "n", "a": "n", "m": "m", "d": "d", "k": "n"},
    "r_v2": {"v": "n", "a": "n", "s": "s", "k": "n"},
    "r_two": {"v": "n", "a": "n", "s": "s", "k": "n"},
    "r_date": {"v": "n", "a": "n", "d": "d"},
    "r_text": {"v": "n", "a": "n", "k": "n"},
    "r_float": {"v": "n", "a": "n", "x": "f", "f": "f"},
    "r_case": {"v": "n", "a": "n", "lc": "l", "ci": "l", "c": "c"},
    "r_time": {"v": "n", "a": "n", "z": "z", "d": "d", "t": "t"},
    "r_zone": {"v": "n", "a": "n", "t": "t", "z": "z"},
    "r_dec": {"v": "n", "a": "n", "q": "q", "m": "m"},
    "r_num": {"v": "n", "a": "n", "m": "m", "q": "q"},
    "r_root": {"v": "n", "a": "n", "k": "n"},
    "r_glob": {"v": "n", "a": "n", "k": "n"},
    "r_wide": {"v": "n", "a": "n", "f": "f", "k": "n"},
    "r_seen": {"v": "n", "a": "n", "z": "z", "t": "t", "d": "d"},
    "r_lax": {"v": "n", "a": "n", "m": "m", "k": "n"},
    "r_dim": {
        "id": "n", "grp": "n", "s": "s", "d": "d", "f": "f", "c": "c", "t": "t", "z": "z",
        "m": "m", "q": "q",
    },
    "r_group": {"grp": "n", "s": "s", "id": "n", "d": "d", "f": "f", "lc": "l", "ci": "l"},
}  # fmt: skip
"""Kind of each column, by table. The last column is the partition key, if there is one."""
DIMENSIONS = ("r_dim", "r_group")
FACTS = tuple(name for name in COLUMNS if name not in DIMENSIONS)


def create(spark: SparkSession) -> None:
    """Create the tables and the views, and move some files of the tables."""
    for statement in map(without_collations, STATEMENTS):
        try:
            spark.sql(statement)
        except AnalysisException:  # some metastores do not have such partition keys
            warehouse = str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
            shutil.rmtree(Path(warehouse) / statement.split()[2])
            spark.sql(statement.replace("PARTITIONED BY (z)", ""))
    create_views(spark, location(spark, _DIRECTORY_OF), location(spark, "r_two"))
    root = location(spark, "r_root")
    for file in (root / "k=2").glob("*.parquet"):
        file.rename(root / file.name)
    spark.sql(f"ALTER TABLE r_root PARTITION (k = 2) SET LOCATION 'file:{root}'")
    # Files of narrower types than the table's, as another writer may add them.
    narrow = spark.range(5).selectExpr("id AS v", "int(id % 3) AS a", "float(id) AS f")
    narrow.write.parquet(str(location(spark, "r_wide") / "k=7"))
    spark.sql("ALTER TABLE r_wide ADD PARTITION (k = 7)")


def create_views(spark: SparkSession, one: Path, other: Path) -> None:
    """Create the views: over a JDBC table, directories of tables, and with other settings.

    Args:
        spark: Session in which the temporary views are created.
        one: Directory of the table ``r_int``.
        other: Directory of the table ``r_two``.
    """
    spark.sql(_DATABASE).write.jdbc(_URL, DATABASE, "overwrite", _DRIVER)
    spark.read.jdbc(_URL, DATABASE, properties=_DRIVER).createOrReplaceTempView(DATABASE)
    spark.read.parquet(str(one)).createOrReplaceTempView(DIRECTORY)
    with changed(spark, {"spark.sql.sources.useV1SourceList": ""}):
        spark.read.parquet(str(other)).createOrReplaceTempView(_FILES)
    for name, (settings, query) in _WITH_OTHER_SETTINGS.items():
        with changed(spark, settings):
            spark.sql(f"CREATE TEMPORARY VIEW {name} AS {query}")


def drop(spark: SparkSession) -> None:
    """Drop the tables and views that :func:`create` has created."""
    for name in VIEWS:
        spark.catalog.dropTempView(name)
    for name in NAMES:
        spark.sql(f"DROP TABLE {name}")


def location(spark: SparkSession, table: str) -> Path:
    """Return the directory of a table."""
    described = spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'")
    return Path(str(described.collect()[0][1]).removeprefix("file:"))


def statements() -> str:
    """Return the SQL statements that create the tables, as one text. They do not move any files."""
    return ";\n".join(STATEMENTS)
