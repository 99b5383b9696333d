"""The data source opens its table once per process, and closes every table that it opens."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import IntegerType, LongType, StructType

import splitlib
from splitlib import DynamicFilteringData
from tests.support.counted_connector import Opens
from tests.support.hive_tables import encoded

pytestmark = pytest.mark.spark

SCHEMA = StructType().add("a", LongType()).add("k", IntegerType())
KEYS = encoded(DynamicFilteringData.from_values({"a": [1]}))
INSTANTS = encoded(DynamicFilteringData.from_values({"a": [datetime(2020, 1, 1, tzinfo=UTC)]}))


@pytest.fixture
def opens(spark, tmp_path):
    for k in range(3):
        (tmp_path / f"table/k={k}").mkdir(parents=True)
        pq.write_table(pa.table({"a": [1, 2]}), tmp_path / f"table/k={k}/f.parquet")
    opens = Opens(tmp_path / "table", tmp_path / "notes")
    spark.dataSource.register(opens.data_source())
    return opens


@pytest.mark.parametrize("filters", [{}, {"filter": KEYS}])
def test_a_batch(spark, opens, filters):
    """Spark infers the schema and plans the query in two processes. Each opens the table once."""
    reader = spark.read.format("counted").options(**filters)
    loaded = reader.load("t")
    assert loaded.schema == SCHEMA
    assert opens.taken() == 1
    assert loaded.count() == 6
    assert opens.taken() == 1
    given = reader.schema(SCHEMA).load("t")
    assert opens.taken() == 0
    assert given.count() == 6
    assert opens.taken() == 1


@pytest.mark.parametrize("filters", [{}, {"filter": KEYS}])
@pytest.mark.parametrize("given", [False, True])
def test_a_stream(spark, opens, tmp_path, filters, given):
    """Spark creates the stream reader in one process, pickles it, and runs it in another."""
    reader = spark.readStream.format("counted").options(**filters)
    stream = (reader.schema(SCHEMA) if given else reader).load("t")
    assert opens.taken() == (0 if given else 1)
    # If the user gives the schema, it may lack the filter columns. The process that creates the
    # reader must then open the table to find their types.
    most = 2 if given and filters else 1
    for query in ("first", "second"):
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / f"{query}_log"))
        writer.start(str(tmp_path / query)).awaitTermination()
        assert spark.read.parquet(str(tmp_path / query)).count() == 6
        # Spark 4.0 pickles the reader again for each query.
        assert opens.taken() in ({most} if query == "first" else {1, most})


@pytest.mark.parametrize(
    ("options", "schema", "error"),
    [
        ({"columns": "z"}, None, "no column 'z'"),
        ({"filter": INSTANTS}, None, "timeZone"),
        ({"maxPartitions": "1"}, SCHEMA, "TooManyPartitions"),
        ({"columns": "a"}, SCHEMA, "differs from the table's"),
    ],
)
def test_what_fails_closes_the_table(spark, opens, options, schema, error):
    reader = spark.read.format("counted").options(**options)
    with pytest.raises(PySparkException, match=error):
        (reader.schema(schema) if schema else reader).load("t").collect()
    assert opens.taken() == 1


def test_a_stream_whose_columns_were_altered(opens, tmp_path):
    """The stream fails if a filter column changes its type, even if the column is not read."""
    options = {"path": "t", "columns": "k", "filter": KEYS}
    source = opens.data_source()(options)
    schema = source.schema()
    assert opens.taken() == 1
    pq.write_table(pa.table({"a": ["1", "2"]}), tmp_path / "table/k=0/f.parquet")
    with pytest.raises(splitlib.ConfigError, match="filters use were altered"):
        source.streamReader(schema).latestOffset()
    assert opens.taken() == 1
