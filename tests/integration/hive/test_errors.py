"""Invalid input and failing services raise an error of the right class, with advice."""

from __future__ import annotations

import socket
import socketserver
import threading

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData, SplitConfig
from splitlib.testing import HiveMetastore
from splitlib_hive.client import MetastoreClient, parse_uris
from tests.support.thrift_client import thrift_client

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]
FAST = SplitConfig(retry_attempts=2, retry_max_seconds=1)


@pytest.fixture(scope="module")
def table(spark):
    spark.sql("CREATE TABLE errors (a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    spark.sql("INSERT INTO errors VALUES (1, 1), (2, 2), (3, 3)")
    return "default.errors"


def open_(metastore, name, **options):
    return splitlib.load_table(name, "hive", config=FAST, **{"uri": metastore.uri, **options})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_no_metastore_there():
    uri = f"thrift://127.0.0.1:{free_port()}"
    with pytest.raises(splitlib.SourceUnavailable, match=rf"{uri}.*Hint: check the uri") as caught:
        splitlib.load_table("a.b", "hive", uri=uri, config=FAST)
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize("uri", ["", "ftp://x:1", "thrift://a:b", "thrift://me:pw@host:99999"])
def test_no_address(uri):
    with pytest.raises(splitlib.ConfigError, match="thrift://host:9083") as caught:
        splitlib.load_table("a.b", "hive", uri=uri)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("name", ["default.nosuch", "nosuch.errors"])
def test_unknown_table(metastore, name):
    with pytest.raises(splitlib.TableNotFound, match=f"no table {name}.*Hint"):
        open_(metastore, name)


def test_unknown_option_and_nonsense(metastore, table):
    with pytest.raises(splitlib.ConfigError, match=r"uir.*did you mean 'uri'"):
        open_(metastore, table, uir="x")
    with pytest.raises(splitlib.ConfigError, match="positive number"):
        open_(metastore, table, partitions_per_request=0)


REFUSED = {
    "view": ("VIEW {t} AS SELECT 1 AS a", {}, "The table is a view"),
    "acid": (
        "TABLE {t} (a INT) CLUSTERED BY (a) INTO 2 BUCKETS STORED AS ORC",
        {"transactional": "true"},
        "ACID.*Hint",
    ),
    "iceberg": ("TABLE {t} (a INT) STORED AS PARQUET", {"table_type": "ICEBERG"}, "'iceberg'"),
    "handler": ("TABLE {t} (a INT) STORED AS PARQUET", {"storage_handler": "x.Y"}, "handler"),
    "delta": ("TABLE {t} (a INT) STORED AS PARQUET", {"table_type": "DELTA"}, "Delta"),
    "symlink": (
        """TABLE {t} (a INT) STORED AS
           INPUTFORMAT 'org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat'
           OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'""",
        {},
        "symlinks",
    ),
    "sequence": ("TABLE {t} (a INT) STORED AS SEQUENCEFILE", {}, "SequenceFileInputFormat.*Hint"),
    "avro": ("TABLE {t} (a INT) STORED AS AVRO", {}, "AvroSerDe.*can be read"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_tables_that_could_give_wrong_rows(spark, metastore, kind):
    definition, properties, says = REFUSED[kind]
    name = f"default.refused_{kind}"
    spark.sql(f"CREATE {definition.replace('{t}', name)}")
    if properties:
        set_properties(metastore, name, properties)
    with pytest.raises(splitlib.UnsupportedTable, match=says) as caught:
        open_(metastore, name)
    assert f"table={name}" in str(caught.value)


@pytest.mark.parametrize("kind", ["acid", "delta", "symlink", "sequence", "avro"])
def test_what_is_refused_is_read_by_the_session_as_spark_reads_it(spark, metastore, kind):
    definition, properties, _ = REFUSED[kind]
    name = f"default.as_spark_{kind}"
    spark.sql(f"CREATE {definition.replace('{t}', name)}")
    if kind in ("acid", "delta", "sequence", "avro"):
        spark.sql(f"INSERT INTO {name} VALUES (1), (2)")
    set_properties(metastore, name, properties)
    spark.catalog.refreshTable(name)
    ways = (lambda: spark.table(name), lambda: splitlib.read(spark).table(name).load())
    plain, ours = (rows_or_error(way) for way in ways)
    assert ours == plain, kind


def rows_or_error(way):
    try:
        return sorted(map(tuple, way().collect()))
    except Exception:
        return "an error"


def set_properties(metastore, name, properties):
    """Set table properties through Thrift, because Spark rejects some of their names."""
    client = MetastoreClient(parse_uris(metastore.uri))
    described = client.get_table(*name.split("."))
    described.parameters.update(properties)
    client.close()
    with thrift_client(metastore) as thrift:
        thrift.alter_table(*name.split("."), described)


def test_a_text_table_that_cannot_be_read_exactly(spark, metastore):
    spark.sql(
        "CREATE TABLE latin (a STRING) ROW FORMAT SERDE "
        "'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe' "
        "WITH SERDEPROPERTIES ('serialization.encoding' = 'latin1')"
    )
    with pytest.raises(splitlib.UnsupportedTable, match="latin1"):
        splitlib.read(spark).table("latin", "hive", uri=metastore.uri).load()


def reader(spark, metastore, table):
    return splitlib.read(spark).table(table, connector="hive", uri=metastore.uri)


def test_columns_that_do_not_exist(spark, way, table):
    dimension, reader = spark.sql("SELECT 1 AS k"), splitlib.read(spark).table(table, **way)
    with pytest.raises(splitlib.InvalidFilter, match=r"no column 'kk'.*did you mean 'k'"):
        reader.filtered_by(dimension, {"kk": "k"}).load()
    with pytest.raises(splitlib.InvalidFilter, match=r"dimension has no column x.*columns are k"):
        reader.filtered_by(dimension, {"k": "x"}).load()
    with pytest.raises(splitlib.InvalidFilter, match="join columns are missing"):
        reader.filtered_by(dimension)
    with pytest.raises(splitlib.ConfigError, match="No table is given"):
        splitlib.read(spark).load()


def test_a_setting_of_the_session_that_is_nonsense(spark, metastore, table):
    spark.conf.set("spark.splitlib.filterThresholdBytes", "much")
    try:
        with pytest.raises(splitlib.ConfigError, match="filterThresholdBytes must be int"):
            reader(spark, metastore, table).load()
    finally:
        spark.conf.unset("spark.splitlib.filterThresholdBytes")


def test_a_catalog_of_the_session(spark, metastore, table):
    spark.conf.set("spark.splitlib.catalog.lake.connector", "hive")
    spark.conf.set("spark.splitlib.catalog.lake.uri", metastore.uri)
    try:
        assert splitlib.read(spark).table(f"lake.{table}").load().count() == 3
        assert splitlib.load_table(f"lake.{table}", spark=spark).partition_keys == ("k",)
    finally:
        spark.conf.unset("spark.splitlib.catalog.lake.connector")
        spark.conf.unset("spark.splitlib.catalog.lake.uri")


VOLATILE = {
    "rand": lambda df: df.where(F.rand() < 0.5),
    "uuid": lambda df: df.withColumn("u", F.expr("uuid()")).where("u > 'a'"),
    "now": lambda df: df.where(F.current_timestamp() > "2020-01-01"),
    "limit": lambda df: df.orderBy("k").limit(2),
    "sample": lambda df: df.sample(0.5, seed=1),
    "first": lambda df: df.groupBy().agg(F.first("k").alias("k")),
    "drop_duplicates": lambda df: df.dropDuplicates(["b"]),
    "drop_duplicates_by_two_names": lambda df: df.dropDuplicates(["b", "B"]),
    "drop_duplicates_by_no_name": lambda df: df.dropDuplicates([]),
    "row_number": lambda df: df.withColumn("n", F.expr("row_number() OVER (ORDER BY b)")),
    "approximate": lambda df: df.selectExpr("approx_percentile(k, 0.25) AS k"),
    "rows_frame": lambda df: df.withColumn(
        "n", F.expr("rank() OVER (ORDER BY b) + sum(1) OVER (ORDER BY b ROWS 1 PRECEDING)")
    ),
    # longer than Spark's text of an expression
    "many_fields": lambda df: (
        df.groupBy("b")
        .agg(F.struct(*[F.sum("k").alias(f"s{i}") for i in range(30)], F.first("k")).alias("s"))
        .selectExpr("s.s1 AS k")
    ),
    "many_orders": lambda df: df.withColumn(
        "n", F.sum("b").over(Window.orderBy(*(F.col("b") + i for i in range(30))).rowsBetween(0, 1))
    ),
    "subquery": lambda df: df.where("k < (SELECT max(x) FROM (SELECT 9 * rand() AS x))"),
}


@pytest.mark.parametrize("kind", VOLATILE)
def test_a_dimension_that_may_change_is_refused_until_frozen(spark, metastore, table, kind):
    dimension = VOLATILE[kind](spark.sql("SELECT CAST(id AS INT) AS k, id % 2 AS b FROM range(9)"))
    with pytest.raises(splitlib.NonDeterministicDimension, match=r"Hint:.*splitlib\.freeze"):
        reader(spark, metastore, table).filtered_by(dimension, "k").load()
    frozen = splitlib.freeze(dimension)
    loaded = reader(spark, metastore, table).filtered_by(frozen, "k").load()
    keys = {row.k for row in frozen.collect()}
    assert {row.k for row in loaded.collect()} == keys & {1, 2, 3}
    assert {row.k for row in frozen.collect()} == keys


def test_a_limit_may_change_even_if_texts_of_plans_are_short(spark, metastore, table):
    dimension = spark.range(9).limit(2).selectExpr("CAST(id AS INT) AS k").where("k > 0")
    spark.conf.set("spark.sql.maxPlanStringLength", "40")
    try:
        with pytest.raises(splitlib.NonDeterministicDimension, match="GlobalLimit depends on"):
            reader(spark, metastore, table).filtered_by(dimension, "k").load()
    finally:
        spark.conf.unset("spark.sql.maxPlanStringLength")


def test_windows_that_do_not_depend_on_the_order_of_rows(spark, metastore, table):
    dimension = spark.sql(
        """SELECT CAST(id AS INT) AS k, rank() OVER (ORDER BY id % 2) AS r,
          sum(id) OVER (PARTITION BY id % 2) AS whole, sum(id) OVER (ORDER BY id % 2) AS peers
        FROM range(9)"""
    )
    loaded = reader(spark, metastore, table).filtered_by(dimension, "k").load()
    assert {row.k for row in loaded.collect()} == {1, 2, 3}


def test_distinct_does_not_depend_on_the_order_of_rows(spark, metastore, table):
    dimension = spark.sql("SELECT CAST(id % 4 AS INT) AS k, id % 2 AS b FROM range(9)").distinct()
    within = dimension.where("k IN (1, 2)").dropDuplicates(["b", "k"]).select("k").distinct()
    loaded = reader(spark, metastore, table).filtered_by(within, "k").load()
    assert {row.k for row in loaded.collect()} == {1, 2}


def test_a_stream_is_refused(spark, metastore, table):
    stream = spark.readStream.format("rate").load().select(F.col("value").alias("k"))
    with pytest.raises(splitlib.NonDeterministicDimension, match="a stream"):
        reader(spark, metastore, table).filtered_by(stream, "k").load()


def test_an_unreadable_directory(spark, metastore, way, table):
    directory = metastore.warehouse / "errors" / "k=2"
    # Permissions do not stop the root user. A symbolic link to itself fails for every user.
    moved = directory.rename(directory.with_name("moved"))
    directory.symlink_to(directory)
    try:
        with pytest.raises(splitlib.SplitlibError, match=r"table=default.errors") as caught:
            splitlib.read(spark).table(table, **way).load()
        assert isinstance(caught.value, OSError)
    finally:
        directory.unlink()
        moved.rename(directory)


def test_a_file_that_vanishes_after_planning(spark, metastore, way):
    spark.sql("CREATE TABLE vanishing (a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    spark.sql("INSERT INTO vanishing VALUES (1, 1)")
    loaded = splitlib.read(spark).table("default.vanishing", **way).load()
    for file in (metastore.warehouse / "vanishing" / "k=1").glob("*"):
        file.unlink()
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|FileNotFound|does not exist"):
        loaded.collect()
    spark.sql("DROP TABLE vanishing")


class DyingProxy(socketserver.ThreadingTCPServer):
    """A proxy for a metastore that closes a connection after ``budget`` bytes of responses."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, target, budget):
        self.target, self.budget, self.connections = target, budget, 0
        super().__init__(("127.0.0.1", 0), _Relay)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def uri(self):
        return f"thrift://127.0.0.1:{self.server_address[1]}"


class _Relay(socketserver.BaseRequestHandler):
    server: DyingProxy

    def handle(self):
        self.server.connections += 1
        with socket.create_connection(self.server.target) as upstream:
            forward = threading.Thread(target=self.pump, args=(self.request, upstream), daemon=True)
            forward.start()
            while self.server.budget > 0 and (data := upstream.recv(512)):
                self.server.budget -= len(data)
                self.request.sendall(data)

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(4096):
                sink.sendall(data)
        except OSError:
            pass  # The proxy itself has closed the connection.


def endpoint(metastore):
    host, _, port = metastore.uri.removeprefix("thrift://").partition(":")
    return host, int(port)


def names_of(table):
    enumerator = DynamicFileEnumerator(table, FAST)
    enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_values({"k": [1, 3]}))
    return [split.partition_values["k"] for split in enumerator.enumerate_splits()]


def test_a_metastore_that_dies_half_way_is_replaced_by_the_next(metastore, table):
    with (
        DyingProxy(endpoint(metastore), budget=10**6) as proxy,
        open_(metastore, table, uri=f"{proxy.uri},{metastore.uri}") as opened,
    ):
        proxy.budget = 20  # The connection closes within the partition names.
        assert names_of(opened) == [1, 3]
        proxy.shutdown()
    assert proxy.connections >= 1
    assert proxy.budget <= 0


def test_a_metastore_that_dies_for_good_is_one_clear_error(metastore, table):
    with (
        DyingProxy(endpoint(metastore), budget=10**6) as proxy,
        open_(metastore, table, uri=proxy.uri) as opened,
    ):
        proxy.budget = 20
        with pytest.raises(splitlib.SourceUnavailable, match="No metastore answers"):
            names_of(opened)
        proxy.shutdown()


def test_a_metastore_that_never_answers(metastore, table):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        mute = f"thrift://127.0.0.1:{silent.getsockname()[1]}"
        opened = open_(metastore, table, uri=f"{mute},{metastore.uri}", timeout_seconds=0.2)
        with opened:
            assert names_of(opened) == [1, 3]


def test_a_metastore_that_was_restarted(tmp_path):
    with HiveMetastore(tmp_path / "own") as own:
        client = MetastoreClient(parse_uris(own.uri))
        assert client.get_databases() == ["default"]
        own.kill()
        with pytest.raises(splitlib.SourceUnavailable):
            client.get_tables("default")
        own.start()
        assert client.get_tables("default") == []
        with pytest.raises(splitlib.TableNotFound):
            client.get_table("default", "x")
        client.close()


def test_credentials_are_not_shown(metastore, table):
    options = {"secret": "s3cr3t", "auto_mkdir": 1, "use_listings_cache": "s3cr3t"}
    with open_(metastore, table, storage_options=options) as opened:
        assert "s3cr3t" not in repr(opened)
