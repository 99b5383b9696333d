"""Draw random programs of star joins, with views, caches, changes of tables and settings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping

from splitlib.arrow.values import is_known
from tests.integration.randomized.choices import some_of
from tests.integration.randomized.programs import Program, Step
from tests.integration.randomized.star_expressions import EVERY_EXPRESSION
from tests.integration.randomized.star_queries import StarQueries

CATALOGS = {"r_lake": "hive", "r_own": "session"}
"""Connector of each named catalog. Some queries read tables through these catalogs."""

ZONES = (
    "UTC",
    "UTC",
    "America/New_York",
    "Asia/Kolkata",
    "Pacific/Apia",
    "Europe/Berlin",
    # older releases of pyarrow have no offsets with minutes
    "+05:45" if is_known("+05:45") else "-03:00",
)

# Spark settings and their possible values. The first settings make optimizer rules duplicate, move
# or merge scans.
_SETTINGS = {
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": ("true", "false"),
    "spark.sql.optimizer.mergeSubplans.filterPropagation.enabled": ("false",),
    "spark.sql.optimizer.mergeSubplans.filterPropagation.throughJoin.enabled": ("true",),
    "spark.sql.optimizer.mergeSubplans.filterPropagation.symmetricFilterPropagation.enabled": (
        "true",
    ),
    "spark.sql.optimizer.singleTaskExecution.enabled": ("true",),
    "spark.sql.cbo.enabled": ("true",),
    "spark.sql.cbo.joinReorder.enabled": ("true",),
    "spark.sql.constraintPropagation.enabled": ("false",),
    "spark.sql.adaptive.enabled": ("true",),
    "spark.sql.exchange.reuse": ("false",),
    "spark.sql.autoBroadcastJoinThreshold": ("-1",),
    "spark.sql.sources.useV1SourceList": ("orc,json,csv,text",),
    "spark.sql.hive.metastorePartitionPruning": ("false",),
    "spark.sql.sources.partitionOverwriteMode": ("dynamic",),
    "spark.sql.caseSensitive": ("true",),
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates",
        "org.apache.spark.sql.catalyst.optimizer.InferFiltersFromConstraints",
        "org.apache.spark.sql.catalyst.optimizer.ColumnPruning",
        "org.apache.spark.sql.catalyst.optimizer.UnwrapCastInBinaryComparison",
        "org.apache.spark.sql.catalyst.optimizer.CollapseProject",
    ),
}

_OWN = {"o_fact": {"v": "n", "a": "n", "k": "n"}, "o_dim": {"id": "n", "grp": "n", "f": "f"}}
_OWN_TABLES = (
    """CREATE TABLE o_fact USING parquet PARTITIONED BY (k) AS
       SELECT id AS v, id % 3 AS a, CAST(id % 5 AS int) AS k FROM range(0, 20, 1, 1)""",
    """CREATE TABLE o_dim USING parquet AS SELECT * FROM
       VALUES (1, 1, 1.0D), (2, 1, double('NaN')), (3, 2, 2.5D), (9, 1, -0.0D) AS (id, grp, f)""",
)
_CHANGES = (
    (
        "INSERT into the fact",
        "INSERT INTO o_fact SELECT id, 1, CAST(id % 8 AS int) FROM range(0, 16, 1, 1)",
    ),
    ("TRUNCATE", "TRUNCATE TABLE o_fact"),
    ("TRUNCATE a partition", "TRUNCATE TABLE o_fact PARTITION (k = 2)"),
    ("DROP PARTITION", "ALTER TABLE o_fact DROP PARTITION (k = 1)"),
    ("ADD PARTITION", "ALTER TABLE o_fact ADD PARTITION (k = 9)"),
    ("INSERT OVERWRITE", "INSERT OVERWRITE o_fact PARTITION (k = 2) VALUES (99, 1), (98, 2)"),
    ("INSERT into the dimension", "INSERT INTO o_dim VALUES (4, 1, 5.0D), (0, 1, 0.0D)"),
    ("TRUNCATE the dimension", "TRUNCATE TABLE o_dim"),
    ("REFRESH", ""),
)

EVERY_INGREDIENT = EVERY_EXPRESSION | {
    *(f"{name}={value}" for name, values in _SETTINGS.items() for value in values),
    *(f"spark.sql.session.timeZone={zone}" for zone in ZONES),
    *(f"spark.sql.ansi.enabled={value}" for value in ("true", "false")),
    "spark.sql.parser.escapedStringLiterals=true",
    "spark.sql.optimizer.pushDownJoinThroughUnion.enabled=true",
    *(f"splitlib.{how}" for how in ("optimize", "sql", "twice")),
    *(f"a cache, then {name}" for name, _ in _CHANGES),
    *(f"an overwrite by {kind}" for kind in ("write", "insert", "do", "append")),
    *("an overwrite of o_fact", "an overwrite of o_dim", "an overwrite through a view"),
    *("a view of an optimized query", "a view joined with itself"),
    *("a view in a union with itself", "a named catalog", "union", "subquery"),
    *(f"a catalog of connector {connector}" for connector in CATALOGS.values()),
    "union of dimensions",
    "a function of a group's key",
    *("a later condition", "a later condition on groups"),
    *("UNION", "UNION ALL", "EXCEPT", "INTERSECT"),
    "a broadcast",
    "the greatest or least key",
    *("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"),
}
"""Names of everything that a program can contain. A long run must draw each of them."""


def draw_program(
    seed: int,
    drawn: random.Random | None = None,
    more: Callable[[random.Random], Mapping[str, str]] = lambda drawn: {},
) -> Program:
    """Return the random program for a seed. The same seed gives the same program.

    Args:
        seed: Seed of the random generator.
        drawn: Random generator to use; None for a new one with this seed.
        more: Function that draws additional Spark settings.
    """
    drawn, ingredients = drawn or random.Random(seed), Counter[str]()
    settings = {**more(drawn), **_settings(drawn, ingredients)}
    how = drawn.choice(("optimize", "optimize", "sql", "sql", "twice"))
    shape = drawn.random()
    steps: tuple[Step, ...]
    tables: tuple[str, ...] = ()
    if shape < 0.1:
        steps = _of_views(drawn, ingredients)
    elif shape < 0.15:
        steps, tables = _with_a_cache(drawn, ingredients), _OWN_TABLES
    elif shape < 0.19:
        steps, tables = _that_overwrites(drawn, ingredients), _OWN_TABLES
    else:
        named = None
        if how == "sql" and drawn.random() < 0.6:
            catalog = drawn.choice(list(CATALOGS))
            ingredients[f"a catalog of connector {CATALOGS[catalog]}"] += 1
            named = f"{catalog}.default"
        queries = StarQueries(drawn, ingredients, named=named)
        step = Step("rows", queries.draw())
        # Spark searches for a later condition's columns in the query, but not in two copies of it.
        if drawn.random() < 0.3 and not step.text.startswith("WITH"):
            step = Step("where", step.text, queries.draw_later_condition())
        steps = (step,)
    ingredients[f"splitlib.{how}"] += 1
    return Program(seed, steps, settings, tables, how, frozenset(ingredients))


def _settings(drawn: random.Random, ingredients: Counter[str]) -> dict[str, str]:
    settings = {
        "spark.sql.session.timeZone": drawn.choice(ZONES),
        "spark.sql.ansi.enabled": drawn.choice(("true", "false")),
    }
    # If a table is joined with a union, this setting makes Spark scan the table once per branch. It
    # is drawn more often than the other settings.
    if drawn.random() < 0.5:
        settings["spark.sql.optimizer.pushDownJoinThroughUnion.enabled"] = "true"
    if drawn.random() < 0.5:
        names = some_of(drawn, list(_SETTINGS), drawn.choice((1, 1, 2, 3)))
        settings |= {name: drawn.choice(_SETTINGS[name]) for name in names}
    if drawn.random() < 0.2:
        settings["spark.sql.parser.escapedStringLiterals"] = "true"
    ingredients.update(f"{name}={value}" for name, value in settings.items())
    return settings


def _of_views(drawn: random.Random, ingredients: Counter[str]) -> tuple[Step, ...]:
    """Draw steps that create views, and a query that joins views or has them in a union."""
    steps: list[Step] = []
    views: dict[str, dict[str, str]] = {}
    for number in range(drawn.choice((1, 1, 2))):
        text, columns = StarQueries(drawn, ingredients, views).draw_with_columns()
        name = f"r_view{number}"
        steps.append(Step("view", text, name))
        views[name] = columns
    ingredients["a view of an optimized query"] += 1
    match drawn.random():
        case x if x < 0.2:
            ingredients["a view joined with itself"] += 1
            text = "SELECT x.c0, y.c1 FROM r_view0 x JOIN r_view0 y ON x.c0 = y.c0"
        case x if x < 0.3:
            ingredients["a view in a union with itself"] += 1
            text = "SELECT * FROM r_view0 UNION ALL SELECT * FROM r_view0"
        case _:
            text = StarQueries(drawn, ingredients, views).draw()
    return (*steps, Step("rows", text))


def _of_own(drawn: random.Random) -> str:
    """Return a query that selects the fact's columns from a join of the program's own tables."""
    key = drawn.choice(("d.id", "d.id", "try_cast(d.f AS int)"))
    condition = drawn.choice((f"d.grp = {drawn.choice((1, 2))}", "d.id > 1", "d.f > 1"))
    match drawn.randrange(4):
        case 0:
            rest = f"JOIN o_dim d ON t.k = {key} WHERE {condition}"
        case 1:
            rest = f"WHERE t.k IN (SELECT {key} FROM o_dim d WHERE {condition})"
        case 2:
            rest = f"LEFT SEMI JOIN o_dim d ON t.k = {key} AND {condition}"
        case _:
            rest = (
                "JOIN (SELECT DISTINCT k FROM r_int) i ON t.k = i.k "
                f"JOIN o_dim d ON i.k = {key} WHERE {condition}"
            )
    return f"SELECT t.v, t.a, t.k FROM o_fact t {rest}"


def _with_a_cache(drawn: random.Random, ingredients: Counter[str]) -> tuple[Step, ...]:
    """Draw steps that cache a query, change its tables, and query the changed tables."""
    query = _of_own(drawn)
    steps = [Step("cache", query)]
    for _ in range(drawn.choice((1, 1, 2))):
        name, statement = drawn.choice(_CHANGES)
        ingredients[f"a cache, then {name}"] += 1
        if statement:
            steps.append(Step("do", statement))
        else:
            # Without REFRESH, even plain Spark may not see the additional file.
            steps += [Step("file", "o_fact"), Step("do", "REFRESH TABLE o_fact")]
        steps.append(Step("rows", query if drawn.random() < 0.7 else _of_own(drawn)))
    if drawn.random() < 0.3:
        steps.append(Step("rows", f"SELECT a, count(*) FROM ({query}) GROUP BY a"))
    return tuple(steps)


def _that_overwrites(drawn: random.Random, ingredients: Counter[str]) -> tuple[Step, ...]:
    """Draw a query whose result overwrites a table that it reads, and queries on the tables.

    These queries show whether rows were lost if Spark refuses to overwrite the table.
    """
    query = _of_own(drawn)
    steps = []
    if drawn.random() < 0.4:
        steps.append(Step("view", query, "o_view"))
        query = "SELECT * FROM o_view"
        ingredients["an overwrite through a view"] += 1
    kind, target = drawn.choice(("write", "write", "insert", "do", "append")), "o_fact"
    if drawn.random() < 0.2:
        target = "o_dim"
        query = (
            "SELECT CAST(v AS int) AS id, CAST(a AS int) AS grp, CAST(k AS double) AS f FROM ("
            + (f"{query})")
        )
    ingredients[f"an overwrite by {kind}"] += 1
    ingredients[f"an overwrite of {target}"] += 1
    if kind == "do":
        steps.append(Step("command", f"INSERT OVERWRITE {target} {query}"))
    elif kind == "append":
        steps.append(Step("command", f"INSERT INTO {target} {query}"))
    else:
        steps.append(Step(kind, query, target))
    return (*steps, Step("rows", "SELECT * FROM o_fact"), Step("rows", "SELECT * FROM o_dim"))
