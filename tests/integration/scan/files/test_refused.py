"""Scans refuse files, columns and formats that they cannot read exactly."""

import pyarrow as pa
import pytest

from benchmarks.tpcds.settings import changed
from splitlib.errors import ConfigError, UnsupportedTable
from splitlib.spark.scan import scan_files
from tests.integration.scan.files.given_files import absent_files, keys, scan

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),  # PySpark needs a session to parse the schemas.
    # PySpark imports pandas to create a DataFrame from Arrow data, and then emits this warning.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": ["file:/x/a", "file:/x//a"], "partition": [1, 1]}, "more than once"),
        ({"partition": [0, 2]}, "there are 2 partitions"),
        ({"partition": [0, -1]}, "there are 2 partitions"),
        ({"size": [1, -1]}, "negative"),
        ({"path": ["x/a", "file:/x/b"]}, "not absolute"),
        ({"path": ["file:/x/../a", "file:/x/b"]}, "not normal"),
        ({"path": ["file:/x/./a", "file:/x/b"]}, "not normal"),
        ({"path": ["file:/x/", "file:/x/b"]}, "not normal"),
        ({"size": [1, None]}, "null"),
    ],
)
def test_files_that_cannot_be_read_as_given(change, message):
    good = {
        "path": ["file:/x/_a=1", "file:/_x/b"],
        "size": [1, 1],
        "modified": [0, 0],
        "partition": [0, 1],
    }
    scan(pa.table(good), {"k": ["1", "2"]}, keys("k int"))
    with pytest.raises(ValueError, match=message):
        scan(pa.table(good | change), {"k": ["1", "2"]}, keys("k int"))


@pytest.mark.parametrize("name", ["_a", ".a", "a._COPYING_"])
def test_files_that_spark_skips(name):
    files = absent_files(1, 1).set_column(0, "path", [[f"file:/x/{name}"]])
    with pytest.raises(UnsupportedTable, match=f"because of its name: file:/x/{name}"):
        scan(files, {"k": ["1"]}, keys("k int"))


def test_columns_that_contradict_each_other():
    none = absent_files(0, 1)
    none = none.cast(
        pa.schema([("path", "string"), *((n, "int64") for n in none.column_names[1:])])
    )
    with pytest.raises(ValueError, match="differ from the keys"):
        scan(none, {"j": ["1"]}, keys("k int"))
    with pytest.raises(UnsupportedTable, match="both data columns"):
        scan(none, {"A": ["1"]}, keys("A int"))


def test_sources_that_do_not_tell_files_apart(spark):
    absent = scan(absent_files(2, 2), {"k": ["0", "1"]}, keys("k int"))
    with changed(spark, {"spark.sql.sources.useV1SourceList": "json,csv"}):
        with pytest.raises(ConfigError, match="add parquet to it"):
            scan_files(spark, absent, "paths")
        assert "k" in scan_files(spark, absent).columns
