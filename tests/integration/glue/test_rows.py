"""Tables of Glue, read with Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from tests.documents.examples import blocks
from tests.support.glue_server import GlueServer, stored

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server():
    with GlueServer().running() as server:
        yield server


def add(server, root, days, **parameters):
    """Add the table ``db.NAME`` with a row per day, registered outside of default locations."""
    name = root.name.lower()
    columns = [{"Name": "v", "Type": "bigint"}]
    server.add_table(
        "db",
        name,
        StorageDescriptor=stored(root.as_uri(), columns),
        PartitionKeys=[{"Name": "day", "Type": "date"}, {"Name": "shop", "Type": "string"}],
        TableType="EXTERNAL_TABLE",
        Parameters=parameters,
    )
    for number, day in enumerate(days):
        where = root / day.replace("-", "/") / f"s{number % 2}"
        where.mkdir(parents=True)
        pq.write_table(pa.table({"v": [number]}), where / "x.parquet")
        values = (day, f"s{number % 2}")
        server.partitions("db", name)[values] = {
            "Values": list(values),
            "StorageDescriptor": stored(where.as_uri()),
        }
    return f"db.{name}"


DAYS = [f"2024-02-{day}" for day in range(20, 30)]


@pytest.mark.parametrize("is_projected", [False, True])
def test_rows_of_a_join(spark, server, tmp_path, is_projected):
    projection = {
        "projection.enabled": "true",
        "projection.day.type": "date",
        "projection.day.format": "yyyy/MM/dd",
        "projection.day.range": "2000/01/01,NOW",
        "projection.shop.type": "enum",
        "projection.shop.values": "s0,s1,s2",
        "storage.location.template": f"{tmp_path.as_uri()}/${{day}}/${{shop}}",
    }
    name = add(server, tmp_path, DAYS, **(projection if is_projected else {}))
    server.requests.clear()
    dates = spark.sql("SELECT explode(array(DATE'2024-02-21', DATE'2024-02-29')) AS d")
    rows = (
        splitlib.read(spark)
        .table(name, connector="glue", **server.options)
        .where("shop = 's1'")
        .filtered_by(dates, on={"day": "d"})
        .load()
    )
    assert rows.schema.simpleString() == "struct<v:bigint,day:date,shop:string>"
    found = rows.join(dates, rows.day == dates.d).select("v", "day", "shop").collect()
    assert sorted((row.v, str(row.day), row.shop) for row in found) == [
        (1, "2024-02-21", "s1"),
        (9, "2024-02-29", "s1"),
    ]
    listings = ["GetTable"] if is_projected else ["GetTable", "GetPartitions"]
    assert server.names() == listings


def test_the_example_of_the_guide(spark, server, tmp_path):
    name = add(server, tmp_path, DAYS)
    (example,) = blocks("docs/guides/glue.md", "py")
    example = example.replace("db.events", name).replace("2026-01-0", "2024-02-2")
    names = {"splitlib": splitlib, "spark": spark, "options": server.options}
    exec(example.replace('region="eu-central-1"', "**options"), names)
    assert sorted(row.v for row in names["two_days"].collect()) == [1, 3]
