"""The ``session`` connector returns the same rows and schema as ``spark.table``."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib import DynamicFilteringData
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan
from splitlib.spark.jvm.table_plans import TableRead, relation_below
from splitlib.spark.session_catalog import connector

pytestmark = pytest.mark.spark

ODD = ["", " ", "a b ", "%", "%25", "a/b=c", "é", "日本", "line\nend", "\t", "q'\"", "x" * 200]


@pytest.mark.parametrize("made_by", ["hive", "spark"])
def test_odd_values(tables, made_by):
    """Partition values with unusual text are read correctly. Empty text is read as null."""
    rows = [*enumerate(ODD), (len(ODD), None)]
    tables.spark.createDataFrame(rows, "a INT, k STRING").createOrReplaceTempView("odd")
    table = tables.create(
        "(a INT) PARTITIONED BY (k STRING) STORED AS PARQUET"
        if made_by == "hive"
        else "(a INT, k STRING) USING parquet PARTITIONED BY (k)",
        "INSERT INTO {t} SELECT * FROM odd",
    )
    keys = tables.spark.sql("SELECT k FROM odd WHERE a % 2 = 1")
    assert tables.same_in_session(table) == len(rows)
    assert tables.same_in_session(table, keys, {"k": "k"}) == len(ODD) // 2
    for value in ODD[1:]:
        given = DynamicFilteringData.from_values({"k": [value]})
        loaded = tables.session_reader(table).filtered_by(given).load()
        assert [row.k for row in loaded.collect()] == [value]
        assert splitlib.explain(loaded).metrics.partitions_matched == 1
    null = tables.spark.sql("SELECT CAST(NULL AS STRING) AS k")
    assert tables.same_in_session(table, null, {"k": "k"}, null_safe=True) == 2
    tables.spark.catalog.dropTempView("odd")


def test_a_table_of_several_keys_without_partitions(tables):
    table = tables.create("(a INT, k INT, l INT) USING parquet PARTITIONED BY (k, l)")
    assert tables.same_in_session(table) == 0


def test_keys_in_upper_case(tables):
    table = tables.create(
        "(A INT, Day INT, `ShopName` STRING) USING orc PARTITIONED BY (Day, `ShopName`)",
        "INSERT INTO {t} SELECT id, id % 4, concat('S', id % 2) FROM range(16)",
    )
    keys = tables.spark.sql("SELECT 1 AS d, 'S1' AS s")
    assert tables.same_in_session(table, keys, {"day": "d", "shopname": "s"}) == 4
    assert tables.same_in_session(table, keys, {"DAY": "d"}) == 4


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("form", ["PARQUET", "TEXTFILE"])
def test_a_value_that_is_none_of_its_type(tables, ansi, form):
    """If a partition value does not fit its type, splitlib fails or reads null, as Spark does."""
    table = tables.create(f"(a INT) PARTITIONED BY (k INT) STORED AS {form}")
    for text in ("1", "one", "02"):
        tables.add_partition(table, [text], rows=None)
        directory = tables.directory(table) / f"k={text}"
        directory.mkdir()
        if form == "PARQUET":
            pq.write_table(pa.table({"a": pa.array([7], pa.int32())}), directory / "f.parquet")
        else:
            (directory / "f").write_text("7\n")
    with changed(tables.spark, {"spark.sql.ansi.enabled": ansi}):
        ways = (
            lambda: tables.spark.table(table).collect(),
            lambda: tables.session_reader(table).load().collect(),
        )
        plain, ours = (outcome(way) for way in ways)
        assert ours == plain
        if plain == "an error":
            return
        one = DynamicFilteringData.from_values({"k": [1]})
        loaded = tables.session_reader(table).filtered_by(one).load()
    # The partition ``k=one`` cannot be compared with the key, so it is kept.
    assert splitlib.explain(loaded).metrics.partitions_matched == 2


def outcome(work):
    """Call ``work``. Return the sorted rows, or ``"an error"`` if the call raises one."""
    try:
        return sorted(map(tuple, work()), key=repr)
    except Exception:
        return "an error"


def test_names_that_are_no_data(tables):
    table = tables.create(
        "(a INT, k INT) USING parquet PARTITIONED BY (k)", "INSERT INTO {t} VALUES (1, 1), (2, 2)"
    )
    directory = tables.directory(table) / "k=1"
    (data,) = directory.glob("*.parquet")
    hidden = ("_x", ".x", "_metadata", "_common_metadata", "x._COPYING_", "_a=1", "sub/f.parquet")
    for name in (*hidden, "a b%20é.parquet", "_temporary/0/f.parquet"):
        (directory / name).parent.mkdir(exist_ok=True, parents=True)
        shutil.copy(data, directory / name)
    (directory / "empty.parquet").touch()
    tables.spark.catalog.refreshTable(table)
    expected = [*(row.a for row in tables.spark.table(table).collect())]
    assert tables.same_in_session(table) == len(expected)


FORMS = {
    "csv": "USING csv OPTIONS (header 'true', multiLine 'true', sep '|', nullValue 'NIL')",
    "json": "USING json OPTIONS (compression 'gzip')",
    "text": "USING text",
    "orc": "USING orc",
    "parquet": "USING parquet",
}
SERDES = {
    "avro": "STORED AS AVRO",
    "rcfile": "STORED AS RCFILE",
    "sequence": "STORED AS SEQUENCEFILE",
    "text": "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\\\'",
    "csv": "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'",
    "regex": """ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.RegexSerDe'
        WITH SERDEPROPERTIES ('input.regex' = '([a-z]*).*')""",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("buckets", ["", "CLUSTERED BY (b) INTO 2 BUCKETS"])
def test_formats(tables, form, buckets):
    table = tables.create(
        f"(b STRING, k INT) {FORMS[form]} PARTITIONED BY (k) {buckets}",
        "INSERT INTO {t} SELECT concat('s|,', id, '\\n', 'é'), id % 5 FROM range(50)",
    )
    keys = tables.spark.sql("SELECT 3 AS k")
    assert tables.same_in_session(table, keys, {"k": "k"}) >= 10
    assert tables.same_in_session(table, None, {}, where="k = 2 AND b LIKE 's%'") >= 10


@pytest.mark.parametrize("form", SERDES)
def test_serdes(tables, form):
    """Tables of every SerDe format have the right rows, through Spark's Hive reader."""
    written = tables.create(
        "(b STRING) PARTITIONED BY (k INT) " + SERDES["text" if form == "regex" else form],
        "INSERT INTO {t} SELECT concat('s', id), id % 5 FROM range(20)",
    )
    table = written
    # The regex SerDe cannot write, so the text SerDe writes the files.
    if form == "regex":
        table = tables.create(f"(b STRING) PARTITIONED BY (k INT) {SERDES[form]}")
        for k in range(5):
            location = tables.directory(written) / f"k={k}"
            tables.add_partition(table, [str(k)], rows=None, location=location)
    keys = tables.spark.sql("SELECT 3 AS k")
    assert tables.same_in_session(table, keys, {"k": "k"}) == 4
    loaded = tables.session_reader(table).filtered_by(keys, "k").load()
    assert splitlib.explain(loaded).metrics.partitions_matched == 1
    assert tables.same_in_session(table) == 20


def test_a_filter_of_paths_that_the_session_names(tables):
    """splitlib applies the path filter of the session's Hadoop settings, as Spark does."""
    table = tables.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    tables.add_partition(table, ["1"], rows=[1])
    tables.add_partition(table, ["2"], rows=[2])
    (data,) = (tables.directory(table) / "k=2").glob("*.parquet")
    # Without the filter, Spark reads a file of this name. The filter below hides it.
    data.rename(data.with_name("_x=1.parquet"))
    name = "mapreduce.input.pathFilter.class"
    with changed(tables.spark, {name: "org.apache.parquet.hadoop.util.HiddenFileFilter"}):
        assert tables.same_in_session(table) == 1
    tables.spark.catalog.refreshTable(table)
    assert tables.same_in_session(table) == 2


def test_partitions_in_other_storages(tables):
    """A partition that is pruned may be in a storage that does not exist."""
    table = tables.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    tables.add_partition(table, ["1"], rows=[1])
    tables.spark.sql(f"ALTER TABLE {table} ADD PARTITION (k = 2) LOCATION '{ELSEWHERE}'")
    keys = tables.spark.sql("SELECT 1 AS k")
    loaded = tables.session_reader(table).filtered_by(keys, "k").load()
    assert [tuple(row) for row in loaded.collect()] == [(1, 1)]


ELSEWHERE = "file:///nowhere/at/all"


def test_the_in_memory_catalog_of_a_view_is_refused_with_advice(tables):
    spark = tables.spark
    table = tables.create("(a INT, k INT) USING parquet PARTITIONED BY (k)")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT a FROM {table} WHERE a > 1")
    view = tables.create("(a INT) USING parquet")
    spark.sql(f"CREATE VIEW {view}_view AS SELECT a FROM {view}")
    for name in ("passing", f"{view}_view"):
        with pytest.raises(
            splitlib.UnsupportedTable,
            match=r"is a view\..*Hint: query it with splitlib\.sql.*tables that it uses",
        ):
            tables.open(name)
    spark.catalog.dropTempView("passing")
    for name in ("nosuch", "default.nosuch", "nosuch.t", "no such name", "a.b.c"):
        with pytest.raises(splitlib.TableNotFound, match="connector=session"):
            tables.open(name)


@pytest.mark.parametrize("provider", ["delta", "no.such.Provider"])
def test_a_provider_that_spark_does_not_have(tables, provider):
    table = tables.create("(a INT, k INT) USING parquet PARTITIONED BY (k)")
    tables.altered(table, **{"spark.sql.sources.provider": provider})
    with pytest.raises(splitlib.UnsupportedTable, match=provider) as caught:
        tables.open(table)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("form", ["PARQUET", "TEXTFILE"])
def test_conditions_on_partition_columns_that_come_later(tables, form):
    """A condition on a partition column of a loaded DataFrame returns the right rows.

    In a SerDe table, Spark uses such a condition to select partitions.
    """
    table = tables.create(
        f"(a INT) PARTITIONED BY (k INT, s STRING) STORED AS {form}",
        "INSERT INTO {t} SELECT id, id % 8, concat('s', id % 3) FROM range(48)",
    )
    keys = DynamicFilteringData.from_values({"k": [1, 2, 3, 4]})
    loaded = tables.session_reader(table).filtered_by(keys).load()
    plain = tables.spark.table(table).where("k IN (1, 2, 3, 4)")
    for condition in ("k = 2", "s = 's1'", "k > 2 AND a > 20", "k + a > 30", "k IS NULL", "K < 3"):
        found, expected = (df.where(condition).collect() for df in (loaded, plain))
        assert sorted(found) == sorted(expected), condition
        read = tables.session_reader(table).where(condition).load()
        assert sorted(read.collect()) == sorted(
            tables.spark.table(table).where(condition).collect()
        )
    assert loaded.schema == plain.schema
    # splitlib accepts the loaded rows as a dimension, because they are deterministic.
    other = tables.session_reader(table).filtered_by(loaded.where("k = 2"), "k").load()
    assert splitlib.explain(other).metrics.partitions_matched == 3


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_default_of_an_added_column_is_refused_by_arrow(tables, form):
    table = tables.create(
        f"(a INT) USING {form}",
        "INSERT INTO {t} VALUES (1)",
        "ALTER TABLE {t} ADD COLUMNS (n INT DEFAULT NULL)",
        "INSERT INTO {t} VALUES (2, 2)",
    )
    with splitlib.load_table(table, spark=tables.spark) as opened:
        rows = opened.to_arrow_dataset().to_table().sort_by("a").to_pylist()
        assert rows == [{"a": 1, "n": None}, {"a": 2, "n": 2}]
    tables.spark.sql(f"ALTER TABLE {table} ADD COLUMNS (c STRING DEFAULT 'x')")
    assert tables.same_in_session(table) == 2
    with splitlib.load_table(table, spark=tables.spark) as opened:
        keys = DynamicFilteringData.from_values({"c": ["x"]})
        with pytest.raises(splitlib.UnsupportedTable, match="lacks column 'c', which has a"):
            opened.to_arrow_dataset(keys).to_table()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_partition_keeps_the_time_zone_of_its_table(tables, zone):
    """Spark reads the partition by the table's former option, so neither zone can be assumed."""
    table = tables.create(
        "(v INT, k TIMESTAMP) USING parquet OPTIONS (timeZone 'UTC') PARTITIONED BY (k)",
        "INSERT INTO {t} VALUES (1, TIMESTAMP'2024-01-01 00:00:00')",
        "ALTER TABLE {t} SET SERDEPROPERTIES ('timeZone' = 'Asia/Tokyo')",
    )
    keys = f"SELECT k FROM {table}"
    with changed(tables.spark, {"spark.sql.session.timeZone": zone}):
        joined = f"SELECT v FROM {table} JOIN ({keys} LIMIT 1) d USING (k)"
        assert splitlib.sql(tables.spark, joined).collect() == [(1,)]
        with pytest.raises(splitlib.UnsupportedTable, match="option timeZone"):
            splitlib.read(tables.spark).table(table).filtered_by(
                tables.spark.sql(keys), on="k"
            ).load()


def test_guarded_tables(tables, monkeypatch):
    """Row filters and column masks are left to Spark, which joined keys would not match."""
    table = tables.create(
        "(a INT, s STRING) USING parquet", "INSERT INTO {t} VALUES (1, 'x'), (2, 'y')"
    )
    catalyst = Catalyst(tables.spark)
    plan = analyzed_plan(tables.spark.table(table))
    relation = catalyst.execution.dataframe(plan.child())
    guards = {
        "Filter": relation.where("a < 2"),
        "Project": relation.selectExpr("a", "concat('masked ', s) AS s"),
    }
    for operator, guarded in guards.items():
        read = TableRead(analyzed_plan(guarded), analyzed_plan(guarded))
        assert relation_below(catalyst, read.plan) is None
        with monkeypatch.context() as patched:
            patched.setattr(connector, "read_of_table", lambda *_, read=read: read)
            with pytest.raises(splitlib.UnsupportedTable, match=f"applies {operator}"):
                splitlib.load_table(table, spark=tables.spark)
    columns = ", ".join(f"a{i}: INT" for i in range(30))
    wide = tables.create(f"(s STRUCT<{columns}, c: CHAR(3)>) USING parquet")
    assert tables.same_in_session(wide) == 0
    fewer = analyzed_plan(relation.select("a"))
    assert relation_below(catalyst, fewer) is None
    assert relation_below(catalyst, analyzed_plan(relation.select("a", "s"))) is not None
