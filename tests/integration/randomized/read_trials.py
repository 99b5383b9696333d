"""Draw random reads of a table, with random conditions, join keys, connectors and settings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tests.integration.randomized.read_tables import (
    DIMENSION,
    KEYS,
    KINDS,
    KINDS_OF_ORC,
    ORC,
    literals,
)
from tests.integration.randomized.star_programs import ZONES
from tests.support.abilities import without_collations

# SQL types of dimension keys with which a column of each kind may be compared.
_NUMERIC = ("int", "bigint", "smallint", "decimal(10, 0)", "decimal(12, 4)", "double", "string")
_TEMPORAL = ("date", "timestamp", "timestamp_ntz", "string")
_TYPES = {
    "v": _NUMERIC,
    "i": _NUMERIC,
    "x.y": _NUMERIC,
    "l": _NUMERIC,
    "m": _NUMERIC,
    "g": ("float", "double", "float", "int", "decimal(8, 2)"),
    "f": ("double", "float", "double", "bigint", "string"),
    "s": ("string", "int", "date"),
    "ch": ("string",),
    "vc": ("string", "int"),
    "lc": (without_collations("string COLLATE UTF8_LCASE"),),
    "ci": (without_collations("string COLLATE UNICODE_CI"),),
    "rt": (without_collations("string COLLATE UTF8_BINARY_RTRIM"),),
    "uc": (without_collations("string COLLATE UNICODE"),),
    "d": _TEMPORAL,
    "t": _TEMPORAL,
    "n": _TEMPORAL,
    "b": ("boolean", "string"),
}
_TEXTUAL = ("s", "lc", "ci", "rt", "uc", "ch", "vc")
# SQL functions that may be applied to a column of each kind, with the kind of their results.
_FUNCTIONS = {
    **dict.fromkeys(_TEXTUAL, (("upper({})", "s"), ("trim({})", "s"), ("substr({}, 1, 1)", "s"))),
    **dict.fromkeys(("i", "l", "v", "x.y"), (
        ("{} % 3", "i"), ("abs({})", "i"), ("CAST({} AS string)", "s"), ("coalesce({}, 1)", "i"),
        ("CAST({} AS tinyint)", "i"), ("CAST({} AS double)", "f"),
    )),
    "m": (("CAST({} AS int)", "i"), ("round({})", "m"), ("CAST({} AS decimal(5, 0))", "m")),
    "g": (("-{}", "f"), ("try_cast({} AS int)", "i"), ("nanvl({}, 1)", "f"), ("isnan({})", "b")),
    "f": (("-{}", "f"), ("CAST({} AS float)", "g"), ("isnan({})", "b"), ("CAST({} AS int)", "i")),
    "d": (("year({}) - 2019", "i"), ("date_add({}, 1)", "d"), ("CAST({} AS timestamp)", "t"),
          ("CAST({} AS string)", "s")),
    "t": (("date({})", "d"), ("CAST({} AS timestamp_ntz)", "n"), ("hour({})", "i"),
          ("date_trunc('DAY', {})", "t")),
    "n": (("CAST({} AS date)", "d"), ("CAST({} AS timestamp)", "t"), ("hour({})", "i")),
    "b": (("NOT {}", "b"),),
}  # fmt: skip
# Tables and kinds that often reveal errors are listed several times, so they are drawn more often.
_TABLES = (*KEYS, "q_text", "q_text", "q_time", "q_zoneless", "q_date", "q_double", "q_float")
_MORE = ("t", "t", "n", "d", "g", "f", "lc", "ci", "rt", "uc")
_PATTERNS = ("'a%'", "'%a'", "'_'", "'%''%'", r"'a\\\\%'", r"'a\\%%'", "'a!%' ESCAPE '!'")
_SETTINGS = {
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.orc.enableVectorizedReader": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.sources.useV1SourceList": "json,csv",
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.InferFiltersFromConstraints"
    ),
    "spark.sql.constraintPropagation.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension whose keys filter the table, and with which the result is joined."""

    query: str
    on: Mapping[str, str]
    null_safe: bool
    join: str
    """Type of the join: ``inner`` or ``left_semi``."""


@dataclass(frozen=True)
class Trial:
    """Description of one random read of a table."""

    seed: int
    table: str
    connector: str
    settings: Mapping[str, str]
    config: Mapping[str, object]
    conditions: tuple[str, ...]
    dimensions: tuple[Dimension, ...]
    narrow: bool
    """Whether only ``v``, partition keys and join columns are compared, instead of all columns."""
    forms: tuple[str, ...] = ()
    """Names of conditions that are expected to prune, such as ``IN``; empty for other reads."""
    ingredients: frozenset[str] = field(default=frozenset(), repr=False)

    def __str__(self) -> str:
        lines = [f"RANDOM_SEED={self.seed} RANDOM_QUERIES=1"]
        lines += [f"SET {key}={value};" for key, value in self.settings.items()]
        lines.append(f"splitlib.read(spark).table({self.table!r}, {self.connector!r}, …)")
        lines.append(f"  .config(**{dict(self.config)})")
        lines += [f"  .where({condition!r})" for condition in self.conditions]
        for d in self.dimensions:
            lines.append(f"  .filtered_by(spark.sql({d.query!r}),")
            lines.append(f"      on={dict(d.on)}, null_safe={d.null_safe})  # then {d.join} join")
        return "\n".join(lines)


_FORMS = ("=", "IN", "<", ">=", "BETWEEN", "OR", "NOT", "IS NULL", "IS NOT NULL", "<=>", "LIKE")
_COMPARISONS = (
    "=", "<>", "literal first", "<=", ">", "BETWEEN", "NOT BETWEEN", "IN", "IN with null", "NOT IN",
    "IS NULL", "IS NOT NULL", "<=>", "<=> NULL", "= or =", "NOT =", "NOT <", "LIKE", "NOT LIKE",
    "startswith", "COLLATE", "RLIKE",
)  # fmt: skip
# ``v`` and ``x.y`` are left out: they are integer columns like ``i`` and ``l``.
_COMMON = [kind for kind in KINDS if kind not in ("v", "x.y")]
EVERY_INGREDIENT = frozenset(
    [
        *(f"{name}={value}" for name, value in _SETTINGS.items()),
        *(f"spark.sql.session.timeZone={zone}" for zone in ZONES),
        *(f"spark.sql.ansi.enabled={value}" for value in ("true", "false")),
        *(f"spark.sql.parser.escapedStringLiterals={value}" for value in ("true", "false")),
        *(f"spark_scan={how}" for how in ("auto", "paths")),
        *(f"filter_max_values={most}" for most in (1, 3)),
        *(f"filter_on_exceed={what}" for what in ("range", "all")),
        *(f"connector={connector}" for connector in ("hive", "session", "files")),
        *(f"table={table}" for table in KEYS),
        *(f"form {form}" for form in _FORMS),
        *(f"comparison {comparison}" for comparison in _COMPARISONS),
        *(f"condition {form}" for form in ("AND", "OR", "NOT", "CASE")),
        *(f"condition on kind {kind}" for kind in KINDS),
        *(f"function {kind}: {text}" for kind in _COMMON for text, _ in _FUNCTIONS.get(kind, ())),
        *(f"filtered by key {kind}" for keys in KEYS.values() for _, _, kind in keys),
        *(f"filtered by data {kind}" for kind in KINDS),
        *(f"kind {kind} by {name}" for kind in _COMMON for name in _TYPES[kind]),
        *(f"many keys for kind {kind}" for kind in _COMMON),
        *(f"a {safe}join: {how}" for safe in ("", "null-safe ") for how in ("inner", "left_semi")),
        *("a tuple", "names in another case", "an empty dimension"),
        *("a dimension that is a table", "many keys"),
    ]
)
"""Names of everything that a random read can contain. A long run must draw each of them."""


def draw_trial(
    seed: int,
    drawn: random.Random | None = None,
    more: Callable[[random.Random], Mapping[str, str]] = lambda drawn: {},
) -> Trial:
    """Return the random read for a seed. The same seed gives the same read.

    Args:
        seed: Seed of the random generator.
        drawn: Random generator to use; None for a new one with this seed.
        more: Function that draws additional Spark settings.
    """
    return _Draw(seed, drawn or random.Random(seed)).trial(more)


class _Draw:
    """Draws one random read. Use an instance only once."""

    def __init__(self, seed: int, drawn: random.Random) -> None:
        self._seed = seed
        self._random = drawn
        self._ingredients: Counter[str] = Counter()
        self._table = self._random.choice(_TABLES)
        self._keys = {name: kind for name, _, kind in KEYS[self._table]}
        kinds = KINDS_OF_ORC if self._table in ORC else KINDS
        self._data = (*kinds, *(kind for kind in _MORE if kind in kinds))

    def trial(self, more: Callable[[random.Random], Mapping[str, str]]) -> Trial:
        """Draw settings, conditions and dimensions, and return the random read."""
        choice = self._random.choice
        connector = choice(("hive", "session", "hive", "session", "files"))
        if connector == "files" and not {"ch", "vc"}.isdisjoint(self._keys.values()):
            connector = "hive"  # A directory cannot have CHAR columns.
        settings = {
            **more(self._random),
            "spark.sql.session.timeZone": choice(ZONES),
            "spark.sql.ansi.enabled": choice(("true", "false")),
            "spark.sql.parser.escapedStringLiterals": choice(("true", "false", "false")),
        }
        if self._random.random() < 0.3:
            name = choice(list(_SETTINGS))
            settings[name] = _SETTINGS[name]
        config: dict[str, object] = {"spark_scan": choice(("auto", "auto", "paths"))}
        if self._random.random() < 0.2:
            config["filter_max_values"] = choice((1, 3))
            config["filter_on_exceed"] = choice(("range", "range", "all"))
        shape = self._random.random()
        forms: tuple[str, ...] = ()
        conditions: tuple[str, ...] = ()
        dimensions: tuple[Dimension, ...] = ()
        if shape < 0.12 and self._keys:
            conditions, forms = self._of_one_form()
        else:
            if shape < 0.55:
                conditions = tuple(self._condition() for _ in range(choice((1, 1, 2))))
            if shape > 0.47:
                dimensions = tuple(self._dimension() for _ in range(choice((1, 1, 1, 2))))
        drawn_always = {k: v for k, v in settings.items() if f"{k}={v}" in EVERY_INGREDIENT}
        every = {**drawn_always, **config, "connector": connector, "table": self._table}
        self._ingredients.update(f"{name}={value}" for name, value in every.items())
        return Trial(
            self._seed, self._table, connector, settings, config, conditions, dimensions,
            self._random.random() < 0.8, forms,
            frozenset(self._ingredients),
        )  # fmt: skip

    def _column(self) -> tuple[str, str]:
        """Draw a column, often a partition key. Return its quoted name and its kind."""
        if self._keys and self._random.random() < 0.5:
            name = self._random.choice(list(self._keys))
            return name, self._keys[name]
        if self._random.random() < 0.06:
            return "st.id", "i"
        name = self._random.choice(self._data)
        return f"`{name}`", name

    def _of_one_form(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return a condition that tests one partition key, and the name of its form."""
        key, kind = self._random.choice(list(self._keys.items()))
        one, other = (self._random.choice(literals(kind)) for _ in range(2))
        forms = {
            "=": f"{key} = {one}",
            "IN": f"{key} IN ({one}, {other})",
            "<": f"{key} < {one}",
            ">=": f"{key} >= {one}",
            "BETWEEN": f"{key} BETWEEN {one} AND {other}",
            "OR": f"{key} = {one} OR {key} = {other}",
            "NOT": f"NOT ({key} <= {one})",
            "IS NULL": f"{key} IS NULL",
            "IS NOT NULL": f"{key} IS NOT NULL",
            "<=>": f"{key} <=> {one}",
            "LIKE": f"CAST({key} AS string) LIKE '%1%'",
        }
        form = self._random.choice(list(forms))
        self._ingredients[f"form {form}"] += 1
        return (forms[form],), (form,)

    def _condition(self, depth: int = 0) -> str:
        draw = self._random.random()
        if depth < 2 and draw < 0.35:
            one, other = self._condition(depth + 1), self._condition(depth + 1)
            form = self._random.choice(("AND", "OR", "OR", "NOT", "CASE"))
            self._ingredients[f"condition {form}"] += 1
            return {
                "AND": f"({one} AND {other})",
                "OR": f"({one} OR {other})",
                "NOT": f"NOT ({one})",
                "CASE": f"CASE WHEN {one} THEN {other} ELSE false END",
            }[form]
        column, kind = self._column()
        self._ingredients[f"condition on kind {kind}"] += 1
        if self._random.random() < 0.3 and kind in _FUNCTIONS:
            text, to = self._random.choice(_FUNCTIONS[kind])
            self._ingredients[f"function {kind}: {text}"] += 1
            column, kind = f"({text.format(column)})", to
        if kind in _TEXTUAL and self._random.random() < 0.3:
            return self._of_text(column)
        return self._simple(column, kind)

    def _simple(self, column: str, kind: str) -> str:
        values = literals(kind)
        if self._random.random() < 0.12:
            # Sometimes use a literal of another kind, which Spark must convert.
            values = literals(self._random.choice([k for k in KINDS if _near(k, kind)]))
        one, other, third = (self._random.choice(values) for _ in range(3))
        forms = {
            "=": f"{column} = {one}",
            "<>": f"{column} <> {one}",
            "literal first": f"{one} < {column}",
            "<=": f"{column} <= {one}",
            ">": f"{column} > {one}",
            "BETWEEN": f"{column} BETWEEN {one} AND {other}",
            "NOT BETWEEN": f"{column} NOT BETWEEN {one} AND {other}",
            "IN": f"{column} IN ({one}, {other}, {third})",
            "IN with null": f"{column} IN ({one}, NULL)",
            "NOT IN": f"{column} NOT IN ({one}, {other})",
            "IS NULL": f"{column} IS NULL",
            "IS NOT NULL": f"{column} IS NOT NULL",
            "<=>": f"{column} <=> {one}",
            "<=> NULL": f"{column} <=> NULL",
            "= or =": f"({column} = {one} OR {column} = {other})",
            "NOT =": f"NOT ({column} = {one})",
            "NOT <": f"NOT ({column} < {one})",
        }
        form = self._random.choice(list(forms))
        self._ingredients[f"comparison {form}"] += 1
        return forms[form]

    def _of_text(self, column: str) -> str:
        form = self._random.choice(("LIKE", "NOT LIKE", "startswith", "COLLATE", "RLIKE"))
        self._ingredients[f"comparison {form}"] += 1
        value = self._random.choice(literals("s"))
        match form:
            case "LIKE" | "NOT LIKE":
                return f"{column} {form} {self._random.choice(_PATTERNS)}"
            case "startswith":
                return f"startswith({column}, {value})"
            case "RLIKE":
                return f"CAST({column} AS string) RLIKE '^[ab]'"
        return without_collations(f"{column} COLLATE UTF8_LCASE = {value}")

    def _dimension(self) -> Dimension:
        fact = dict(self._column_of_fact() for _ in range(self._random.choice((1, 1, 1, 2))))
        how = self._random.random()
        collated = not {"lc", "ci", "rt", "uc"}.isdisjoint(fact.values())
        if how < 0.3:
            query, on = self._of_the_table(fact)
        elif how < (0.7 if collated else 0.42):
            query, on = self._many(fact)
        else:
            query, on = self._of_values(fact)
        null_safe = self._random.random() < 0.3
        join = self._random.choice(("inner", "left_semi"))
        self._ingredients[f"a {'null-safe ' if null_safe else ''}join: {join}"] += 1
        if len(fact) > 1:
            self._ingredients["a tuple"] += 1
        if self._random.random() < 0.04:
            self._ingredients["names in another case"] += 1
            on = {name.upper(): column.upper() for name, column in on.items()}
        return Dimension(query, on, null_safe, join)

    def _column_of_fact(self) -> tuple[str, str]:
        if self._keys and self._random.random() < 0.6:
            name = self._random.choice(list(self._keys))
            kind = self._keys[name]
        else:
            name = kind = self._random.choice(self._data)
        self._ingredients[f"filtered by {'key' if name in self._keys else 'data'} {kind}"] += 1
        return name, kind

    def _of_values(self, fact: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Return a dimension of a few literals and nulls, which may be cast to other types.

        The dimension may be empty.
        """
        count = self._random.choice((0, 1, 2, 3, 3, 5))
        rows = []
        for _ in range(max(count, 1)):
            values = [self._random.choice((*literals(kind), "NULL")) for kind in fact.values()]
            rows.append(f"SELECT {', '.join(f'{v} AS x{i}' for i, v in enumerate(values))}")
        types = [self._random.choice(_TYPES[kind]) for kind in fact.values()]
        for kind, type_name in zip(fact.values(), types, strict=True):
            self._ingredients[f"kind {kind} by {type_name}"] += 1
        cast = ", ".join(f"try_cast(x{i} AS {t}) AS x{i}" for i, t in enumerate(types))
        query = f"SELECT {cast} FROM ({' UNION ALL '.join(rows)})"
        if not count:
            self._ingredients["an empty dimension"] += 1
            query += " WHERE x0 <> x0"
        return query, _numbered(fact)

    def _of_the_table(self, fact: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Return a dimension that selects columns of a table, perhaps cast to other types."""
        self._ingredients["a dimension that is a table"] += 1
        where = self._random.choice(("v % 5 = 1", "v < 4", "b", "v = 7", "d IS NULL"))
        if self._random.random() < 0.5:
            types = [self._random.choice(_TYPES[kind]) for kind in fact.values()]
            cast = ", ".join(
                f"try_cast(`{kind}` AS {wanted}) AS x{i}"
                for i, (kind, wanted) in enumerate(zip(fact.values(), types, strict=True))
            )
            for kind, wanted in zip(fact.values(), types, strict=True):
                self._ingredients[f"kind {kind} by {wanted}"] += 1
            return f"SELECT {cast} FROM {DIMENSION} WHERE {where}", _numbered(fact)
        nested = self._random.random() < 0.05
        on = {name: "st.id" if nested and kind == "i" else kind for name, kind in fact.items()}
        return f"SELECT * FROM {DIMENSION} WHERE {where}", on

    def _many(self, fact: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Return a dimension with so many keys that splitlib does not list them one by one.

        Most of these keys do not match any row.
        """
        self._ingredients["many keys"] += 1
        texts = {"d": "date_add(DATE'2031-01-01', CAST(id AS int))",
                 "t": "timestamp_seconds(1900000000 + id)",
                 "n": "CAST(timestamp_seconds(1900000000 + id) AS timestamp_ntz)",
                 "b": "id % 2 = 0"}  # fmt: skip
        columns, few = [], []
        for i, kind in enumerate(fact.values()):
            wanted = self._random.choice(_TYPES[kind][:1] if kind in _TEXTUAL else _TYPES[kind][:2])
            generated = texts.get(kind, "concat('~', id)" if kind in _TEXTUAL else "id + 100000")
            columns.append(f"try_cast({generated} AS {wanted}) AS x{i}")
            few.append(f"try_cast({self._random.choice(literals(kind))} AS {wanted}) AS x{i}")
            self._ingredients[f"many keys for kind {kind}"] += 1
        query = f"SELECT {', '.join(columns)} FROM range(1200) UNION ALL SELECT {', '.join(few)}"
        return query, _numbered(fact)


def _numbered(fact: Iterable[str]) -> dict[str, str]:
    return {name: f"x{i}" for i, name in enumerate(fact)}


def _near(one: str, other: str) -> bool:
    """Return whether Spark can compare columns of the two kinds."""
    groups = (("v", "i", "l", "m", "g", "f", "x.y"), ("d", "t", "n"), _TEXTUAL, ("b",))
    return any(one in group and other in group for group in groups)


FORMATS = {table: "orc" if table in ORC else "parquet" for table in KEYS}
"""File format, by name of the table."""
