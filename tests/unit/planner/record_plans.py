"""Record Spark's plans of each query shape. Run this by hand, with every supported Spark version:

    .venv/bin/python -m tests.unit.planner.record_plans
    .venv-oldest/bin/python -m tests.unit.planner.record_plans

The script writes ``plans/<version>.json.gz`` in its directory, with the plans that the planner
reads. The plans have the format of ``LogicalPlan.toJSON``. Parts that no test reads, or that differ
between runs, are removed. A shape is planned again only if its SQL has changed. To record all
shapes again, remove the file.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.logical_plan import Expression, Node
from tests.unit.planner.shapes import shapes, tables

PLANS = Path(__file__).parent / "plans"

_UNREAD = frozenset(
    {"jvmId", "metadata", "nonInheritableMetadataKeys", "explicitMetadata", "qualifier", "data",
     "qualifiers", "timeZoneId", "resultId", "hint", "isStreaming", "stream", "relation", "child",
     "left", "right", "tableStats", "prunedPartitions"}
)  # fmt: skip
_COMPARISONS = frozenset(
    {"EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"}
)


def main() -> None:
    """Plan all shapes with the installed Spark, and write the file."""
    with tempfile.TemporaryDirectory() as directory:
        spark = _session(directory)
        for statement in tables():
            _create(spark, statement)
        catalyst = Catalyst(spark)
        path = PLANS / f"{spark.version}.json.gz"
        before = json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {}
        recorded = {}
        for shape in shapes():
            known = before.get(shape.name, {})
            try:
                same = known.get("sql") == shape.sql
                recorded[shape.name] = known if same else _recorded(catalyst, shape.sql)
            except PySparkException as error:
                print(shape.name, "is refused:", str(error).strip().partition("\n")[0])
                recorded[shape.name] = {"sql": shape.sql, "refused": True}
        PLANS.mkdir(exist_ok=True)
        text = json.dumps(recorded, separators=(",", ":")).encode()
        path.write_bytes(gzip.compress(text, mtime=0))
        print(path, len(recorded), "shapes")
        spark.stop()


def _create(spark: SparkSession, statement: str) -> None:
    """Create a table, without collations if Spark does not have them."""
    try:
        spark.sql(statement)
    except PySparkException:
        spark.sql(re.sub(r" COLLATE \w+", "", statement))


def _session(directory: str) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:{directory}/hive;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory}",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[1]").enableHiveSupport()
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _recorded(catalyst: Catalyst, sql: str) -> dict[str, Any]:
    """Return the parts of Spark's plans for a query that the tests read."""
    analyzed = catalyst.execution.analyzed(catalyst.spark.sql(sql))
    optimized = catalyst.execution.optimized(analyzed)
    numbers: dict[int, int] = {}
    return {
        "sql": sql,
        "deterministic": catalyst.plans.is_deterministic(optimized),
        "analyzed": json.dumps(_stripped(json.loads(analyzed.toJSON()), numbers)),
        "optimized": json.dumps(_stripped(json.loads(optimized.toJSON()), numbers)),
        "types": [
            _type_of(catalyst, optimized, side) for side in _sides(catalyst.plans.tree(optimized))
        ],
    }


def _type_of(catalyst: Catalyst, plan: Any, side: Expression) -> list[Any]:
    """Return the position of an expression in the plan, and the two names of its type."""
    place = side.place
    kind = catalyst.plans.expression_at(plan, place).dataType()
    names = str(kind.typeName()), str(kind.catalogString())
    return [[*place.node], place.number, [*place.inside], *names]


def _stripped(value: Any, numbers: dict[int, int]) -> Any:
    """Return the JSON of a plan without parts that no test reads. Number attribute ids from 1."""
    if isinstance(value, list):
        return [_stripped(item, numbers) for item in value]
    if not isinstance(value, dict):
        return value
    if "jvmId" in value:
        return {"id": numbers.setdefault(value["id"], len(numbers) + 1)}
    if str(value.get("product-class", "")).endswith(".CatalogTable"):
        table = value["identifier"]["table"]
        return {"table": table, "partitionColumnNames": value["partitionColumnNames"]}
    return {name: _stripped(item, numbers) for name, item in value.items() if name not in _UNREAD}


def _sides(root: Node) -> Iterator[Expression]:
    """Yield sides of comparisons for which the plan does not contain the full type."""
    for node in root.walk():
        for field in node.fields:
            for whole in node.expressions(field):
                for part in whole.walk():
                    for side in part.children if part.kind in _COMPARISONS else ():
                        kind = side.fields.get("dataType")
                        if kind is None or "string" in str(kind) or isinstance(kind, dict):
                            yield side


if __name__ == "__main__":
    main()
