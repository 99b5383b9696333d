"""Star joins drawn at random over a few small tables: which are right, Spark itself says."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

TABLES = """
CREATE TABLE r_int USING parquet PARTITIONED BY (k) AS
  SELECT id AS v, id % 4 AS a, CAST(id % 9 AS int) AS k FROM range(72)
  UNION ALL SELECT 500, 1, NULL;
CREATE TABLE r_two USING parquet PARTITIONED BY (s, k) AS
  SELECT id AS v, id % 5 AS a, nullif(concat('g', id % 4), 'g3') AS s, CAST(id % 3 AS bigint) AS k
  FROM range(48);
CREATE TABLE r_date USING orc PARTITIONED BY (d) AS
  SELECT id AS v, id % 3 AS a, date_add(DATE'2020-02-26', CAST(id % 7 AS int)) AS d FROM range(42);
CREATE TABLE r_text (v bigint, a bigint) PARTITIONED BY (k int) STORED AS textfile;
INSERT INTO r_text SELECT id, id % 3, CAST(id % 8 AS int) FROM range(40);
CREATE TABLE r_dim USING parquet AS
  SELECT CAST(id % 12 AS int) AS id, CAST(id % 4 AS int) AS grp, concat('g', id % 5) AS s,
         date_add(DATE'2020-02-24', CAST(id AS int)) AS d FROM range(16)
  UNION ALL SELECT NULL, 1, NULL, NULL;
CREATE TABLE r_group USING parquet AS
  SELECT CAST(id AS int) AS grp, concat('g', id) AS s, CAST(id * 2 AS int) AS id,
         date_add(DATE'2020-02-26', CAST(id AS int)) AS d FROM range(4)
"""
NAMES = ("r_int", "r_two", "r_date", "r_text", "r_dim", "r_group")

# A view that the user of these has to make: the directory of r_int, read by its path.
DIRECTORY, DIRECTORY_OF = "r_dir", "r_int"

_COLUMNS = {
    "r_int": {"v": "n", "a": "n", "k": "n"},
    "r_dir": {"v": "n", "a": "n", "k": "n"},
    "r_two": {"v": "n", "a": "n", "s": "s", "k": "n"},
    "r_date": {"v": "n", "a": "n", "d": "d"},
    "r_text": {"v": "n", "a": "n", "k": "n"},
    "r_dim": {"id": "n", "grp": "n", "s": "s", "d": "d"},
    "r_group": {"grp": "n", "s": "s", "id": "n", "d": "d"},
}
_FACTS = ("r_int", "r_dir", "r_two", "r_date", "r_text")
_DIMENSIONS = ("r_dim", "r_group")
_LITERALS = {
    "n": ("1", "2", "3", "5"),
    "s": ("'g1'", "'g2'", "'g9'"),
    "d": ("DATE'2020-02-27'", "DATE'2020-03-01'"),
}


@dataclass
class _Scope:
    """What conditions and the select list may speak of."""

    columns: dict[str, str] = field(default_factory=dict)
    """``alias.column`` to its kind."""

    def of(self, kind: str) -> list[str]:
        return [name for name, k in self.columns.items() if k == kind]


class StarQueries:
    """An endless row of queries; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._aliases = 0

    def draw(self) -> str:
        """A query without an order, whose rows are the same each time."""
        self._aliases = 0
        scope = _Scope()
        text = self._relation(scope, fact=True)
        for _ in range(self._random.choice((1, 1, 2, 2, 3))):
            text += self._join(scope)
        where = [self._condition(scope) for _ in range(self._random.choice((0, 1, 1, 2)))]
        where += [self._subquery(scope) for _ in range(self._random.choice((0, 0, 0, 1)))]
        if where:
            text += " WHERE " + " AND ".join(where)
        names = self._random.sample(list(scope.columns), min(3, len(scope.columns)))
        if self._random.random() < 0.3:
            return f"SELECT {names[0]}, count(*) FROM {text} GROUP BY {names[0]}"
        if self._random.random() < 0.15:
            # Spark takes subqueries of one table together
            table = self._random.choice(_FACTS)
            names += [self._measure(table), self._measure(table)]
        listed = ", ".join(f"{name} AS c{i}" for i, name in enumerate(names))
        query = f"SELECT {listed} FROM {text}"
        if self._random.random() < 0.1:
            query = f"WITH q AS ({query}) SELECT * FROM q UNION ALL SELECT * FROM q"
        return query

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _relation(self, scope: _Scope, *, fact: bool) -> str:
        table = self._random.choice(_FACTS if fact else _DIMENSIONS)
        alias = self._alias()
        columns = dict(_COLUMNS[table])
        text = table
        shape = self._random.random()
        if shape < 0.15:
            inner = _Scope({f"{table}.{name}": kind for name, kind in columns.items()})
            text = f"(SELECT * FROM {table} WHERE {self._condition(inner)})"
        elif shape < 0.3:
            key = self._random.choice([n for n in columns if n not in ("v", "a")])
            aggregate = "min(v)" if "v" in columns else "count(*)"
            text = f"(SELECT {key}, {aggregate} AS v FROM {table} GROUP BY {key})"
            columns = {key: columns[key], "v": "n"}
        elif shape < 0.38 and fact:
            other = self._random.choice([t for t in _FACTS if "k" in _COLUMNS[t]])
            # a condition on the tag rules out what is below one branch, or both
            two = (
                f"SELECT 'g1' AS tag, v, k FROM r_int UNION ALL SELECT 'g2', v, k + 1 FROM {other}"
            )
            text = f"({two})"
            columns = {"tag": "s", "v": "n", "k": "n"}
        elif shape < 0.43:
            key = self._random.choice([n for n in columns if n not in ("v", "a")])
            by = self._random.choice(list(columns))
            text = f"(SELECT {key}, count(*) OVER (PARTITION BY {by}) AS v FROM {table})"
            columns = {key: columns[key], "v": "n"}
        scope.columns |= {f"{alias}.{name}": kind for name, kind in columns.items()}
        return f"{text} {alias}"

    def _measure(self, table: str) -> str:
        inner = _Scope({f"{table}.{name}": kind for name, kind in _COLUMNS[table].items()})
        function = self._random.choice(("max(v)", "sum(a)", "count(*)"))
        where = f" WHERE {self._condition(inner)}" if self._random.random() < 0.5 else ""
        return f"(SELECT {function} FROM {table}{where})"

    def _join(self, scope: _Scope) -> str:
        kind = self._random.choice(
            ("JOIN",) * 6
            + ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
        )
        other = _Scope()
        relation = self._relation(other, fact=self._random.random() < 0.25)
        on = self._comparison(scope, other)
        if on is None:
            kind, on = "JOIN", "true" if len(scope.columns) < 4 else "1 = 0"
        if self._random.random() < 0.3:
            on += " AND " + (self._comparison(scope, other) or self._condition(other))
        if self._random.random() < 0.5:
            on += " AND " + self._condition(other)
        if "SEMI" not in kind and "ANTI" not in kind:
            scope.columns |= other.columns
        return f" {kind} {relation} ON {on}"

    def _comparison(self, left: _Scope, right: _Scope) -> str | None:
        # partition columns and keys rather than values, or nothing would ever match
        def usable(scope: _Scope, kind: str) -> list[str]:
            names = scope.of(kind)
            return [n for n in names if not n.endswith((".v", ".a"))] or names

        kinds = [k for k in _LITERALS if usable(left, k) and usable(right, k)]
        if not kinds:
            return None
        kind = self._random.choice(kinds)
        one = self._random.choice(usable(left, kind))
        other = self._random.choice(usable(right, kind))
        if kind == "n" and self._random.random() < 0.15:
            other = f"{other} + 1"
        match self._random.random():
            case x if x < 0.7:
                return f"{one} = {other}"
            case x if x < 0.8:
                return f"{one} <=> {other}"
            case x if x < 0.9 or kind != "n":
                return f"{one} {self._random.choice(('<', '<=', '>', '>='))} {other}"
        return f"{one} BETWEEN {other} AND {other} + 1"

    def _condition(self, scope: _Scope) -> str:
        column = self._random.choice(list(scope.columns))
        literals = _LITERALS[scope.columns[column]]
        one, other = self._random.choice(literals), self._random.choice(literals)
        return self._random.choice(
            (
                f"{column} = {one}",
                f"{column} IN ({one}, {other})",
                f"{column} >= {one}",
                f"{column} < {one}",
                f"({column} = {one} OR {column} IS NULL)",
                f"{column} IS NOT NULL",
                f"NOT ({column} = {one})",
            )
        )

    def _subquery(self, scope: _Scope) -> str:
        inner = _Scope()
        relation = self._relation(inner, fact=self._random.random() < 0.2)
        pairs = [(a, b) for k in _LITERALS for a in scope.of(k) for b in inner.of(k)]
        if not pairs:
            return self._condition(scope)
        outer, key = self._random.choice(pairs)
        condition = self._condition(inner)
        within = f"SELECT {key} FROM {relation} WHERE {condition}"
        return self._random.choice(
            (
                f"{outer} IN ({within})",
                f"{outer} NOT IN ({within})",
                f"EXISTS ({within} AND {key} = {outer})",
                f"NOT EXISTS ({within} AND {key} = {outer})",
                f"{outer} = (SELECT max({key}) FROM {relation} WHERE {condition})",
                f"({outer} IN ({within}) OR {self._condition(scope)})",
            )
        )
