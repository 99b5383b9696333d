"""Draw random SQL queries that join facts and dimensions, from the tables of ``star_tables``."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

from tests.integration.randomized.choices import some_of
from tests.integration.randomized.star_expressions import LITERALS, Expressions, Scope
from tests.integration.randomized.star_tables import COLUMNS, DIMENSIONS, FACTS, VIEWS

_VALUES = ("v", "a")


class StarQueries:
    """Draws random star joins as SQL text.

    Args:
        drawn: Random generator. With the same seed, it draws the same queries.
        ingredients: Counter of the features that the queries use; None for a new counter.
        more_facts: Views to use like fact tables: the kind of each column, by name of the view;
            None for no views.
        named: Named catalog, with database, from which some tables are read; None to use only
            the session's catalog.
    """

    def __init__(
        self,
        drawn: random.Random,
        ingredients: Counter[str] | None = None,
        more_facts: Mapping[str, Mapping[str, str]] | None = None,
        named: str | None = None,
    ) -> None:
        self._random = drawn
        self._ingredients = Counter() if ingredients is None else ingredients
        self._expressions = Expressions(drawn, self._ingredients)
        self._columns = {**COLUMNS, **(more_facts or {})}
        self._facts = (*FACTS, *(more_facts or {}))
        self._preferred = tuple(more_facts or ())
        self._named = named
        self._aliases = 0
        self._theme = ""
        self._more_facts = 0.25
        self._scope = Scope()
        self._is_grouped = False

    def draw(self) -> str:
        """Return a query with deterministic rows. Their order is not defined."""
        return self.draw_with_columns()[0]

    def draw_with_columns(self) -> tuple[str, dict[str, str]]:
        """Return a query as :meth:`draw` does, and the kind of each of its columns."""
        self._aliases = 0
        self._theme = self._expressions.draw_theme()
        self._more_facts = self._random.choice((0.1, 0.25, 0.7))
        self._scope = scope = Scope()
        self._is_grouped = False
        if self._random.random() < 0.08:
            text = self._union_of_dimensions(scope)
            text += self._join(scope, fact=True)
        else:
            text = self._relation(scope, fact=True)
        for _ in range(self._random.choice((1, 1, 2, 2, 3))):
            text += self._join(scope)
        where = [self._condition(scope) for _ in range(self._random.choice((0, 1, 1, 2)))]
        where += [self._subquery(scope) for _ in range(self._random.choice((0, 0, 0, 1)))]
        where += [self._extreme(scope) for _ in range(self._random.choice((0, 0, 0, 0, 0, 1)))]
        if where:
            text += " WHERE " + " AND ".join(where)
        names = some_of(self._random, list(scope.columns), min(3, len(scope.columns)))
        kinds = {f"c{i}": scope.columns[name] for i, name in enumerate(names)}
        if self._random.random() < 0.3:
            self._is_grouped = True
            key, kind = self._grouped(names[0], kinds["c0"])
            query = f"SELECT{self._hint()} {key} AS c0, count(*) AS c1 FROM {text} GROUP BY {key}"
            return query, {"c0": kind, "c1": "n"}
        if self._random.random() < 0.15:
            # Two scalar subqueries over one table test that Spark merges their scans.
            table = self._random.choice(FACTS)
            for _ in range(2):
                kinds[f"c{len(names)}"] = "n"
                names.append(self._measure(table))
        listed = ", ".join(f"{name} AS c{i}" for i, name in enumerate(names))
        query = f"SELECT{self._hint()} {listed} FROM {text}"
        if self._random.random() < 0.1:
            query = f"WITH q AS ({query}) SELECT * FROM q UNION ALL SELECT * FROM q"
        return query, kinds

    def draw_later_condition(self) -> str:
        """Return a condition for ``df.where`` on the result of the last query.

        Most columns in it are not selected by the query. Above an aggregate, Spark accepts it as
        HAVING, so it calls a function of these columns.
        """
        condition = self._condition(self._scope)
        if self._is_grouped:
            self._ingredients["a later condition on groups"] += 1
            return self._random.choice((f"bool_or({condition})", f"NOT bool_and({condition})"))
        self._ingredients["a later condition"] += 1
        return condition

    def _hint(self) -> str:
        """Return a broadcast hint or an empty text.

        Some optimizer rules duplicate only scans of broadcast tables. Without size statistics,
        Spark broadcasts these tables only with a hint.
        """
        if self._random.random() < 0.6:
            return ""
        self._ingredients["a broadcast"] += 1
        return f" /*+ BROADCAST(t{self._random.choice((2, 2, 2, 1, 3))}) */"

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _table(self, *, fact: bool) -> str:
        if fact and self._preferred and self._random.random() < 0.6:
            return self._random.choice(self._preferred)
        tables = self._facts if fact else DIMENSIONS
        fitting = [t for t in tables if not set(self._theme).isdisjoint(self._columns[t].values())]
        return self._random.choice(fitting if fitting and self._random.random() < 0.75 else tables)

    def _in_from(self, table: str) -> str:
        """Return the name to use in FROM: of the session's catalog or of the named catalog."""
        if self._named is None or table in VIEWS or table not in COLUMNS:
            return table
        if self._random.random() < 0.6:
            self._ingredients["a named catalog"] += 1
            return f"{self._named}.{table}"
        return table

    def _grouped(self, column: str, kind: str) -> tuple[str, str]:
        """Return an expression by which a query can group a column, and its kind.

        For collated text, Spark returns any one of the equal texts of a group. The expression
        makes these texts identical.
        """
        if kind == "l":
            return f"lower(rtrim(CAST({column} AS string)))", "s"
        return column, kind

    def _relation(self, scope: Scope, *, fact: bool) -> str:
        table = self._table(fact=fact)
        alias = self._alias()
        columns = dict(self._columns[table])
        text = name = self._in_from(table)
        shape = self._random.random()
        if shape < 0.15:
            inner = Scope({f"{table}.{name}": kind for name, kind in columns.items()})
            text = f"(SELECT * FROM {name} WHERE {self._condition(inner)})"
        elif shape < 0.3:
            key = self._random.choice(self._keys(table))
            aggregate = "min(v)" if "v" in columns else "count(*)"
            by, kind = self._grouped(key, columns[key])
            value = by
            if self._random.random() < 0.3:
                self._ingredients["a function of a group's key"] += 1
                value, kind = self._expressions.function_of(by, kind)
            text = f"(SELECT {value} AS {key}, {aggregate} AS v FROM {name} GROUP BY {by})"
            columns = {key: kind, "v": "n"}
        elif shape < 0.42 and fact:
            text, columns = self._union()
        elif shape < 0.5:
            text, columns = self._set_operation(table)
        elif shape < 0.55:
            key = self._random.choice(self._keys(table))
            by = self._random.choice(list(columns))
            text = f"(SELECT {key}, count(*) OVER (PARTITION BY {by}) AS v FROM {name})"
            columns = {key: columns[key], "v": "n"}
        scope.columns |= {f"{alias}.{name}": kind for name, kind in columns.items()}
        return f"{text} {alias}"

    def _keys(self, table: str) -> list[str]:
        columns = list(self._columns[table])
        return [name for name in columns if name not in _VALUES] or columns

    def _union(self) -> tuple[str, dict[str, str]]:
        """Return a union of two tables as SQL text, and the kinds of its columns.

        The column ``tag`` differs between the tables, so a condition on it can exclude a table.
        """
        self._ingredients["union"] += 1
        one = self._random.choice(("r_int", *self._facts))
        kind = COLUMNS.get(one, self._columns[one])[self._keys(one)[-1]]
        alike = [t for t in self._facts if self._columns[t][self._keys(t)[-1]] == kind]
        other = self._random.choice(alike)
        key, other_key = self._keys(one)[-1], self._keys(other)[-1]
        more = " + 1" if kind == "n" else ""
        value, other_value = ("v" if "v" in self._columns[t] else "1" for t in (one, other))
        text = (
            f"(SELECT 'g1' AS tag, {value} AS v, {key} AS k FROM {one} "
            f"UNION ALL SELECT 'g2', {other_value}, {other_key}{more} FROM {other})"
        )
        return text, {"tag": "s", "v": "n", "k": kind}

    def _set_operation(self, table: str) -> tuple[str, dict[str, str]]:
        """Return a set operation as SQL text, and the kind of its column.

        One side has the keys of a table, often of few of its partitions, the other side those of a
        table with keys of the same kind.
        """
        key = self._keys(table)[-1]
        kind = self._columns[table][key]
        others = {t: self._keys(t)[-1] for t in (*self._facts, *DIMENSIONS)}
        other = self._random.choice(
            [t for t, k in others.items() if self._columns[t].get(k) == kind] or [table]
        )
        sign = self._random.choice(("UNION", "UNION ALL", "UNION ALL", "EXCEPT", "INTERSECT"))
        self._ingredients[sign] += 1
        one = f"SELECT {key} AS k FROM {self._in_from(table)}"
        if self._random.random() < 0.6:
            dimension = self._random.choice(DIMENSIONS)
            inner, outer = Scope(dict(COLUMNS[dimension])), Scope({key: kind})
            if pairs := inner.of(kind):
                one += (
                    f" WHERE {key} IN (SELECT {self._random.choice(pairs)} FROM {dimension}"
                    f" WHERE {self._condition(inner)})"
                )
            else:
                one += f" WHERE {self._condition(outer)}"
        sides = [one, f"SELECT {others[other]} FROM {self._in_from(other)}"]
        if sign != "EXCEPT" and self._random.random() < 0.3:
            sides.reverse()
        first, second = sides
        if not first.startswith(f"SELECT {key} AS k "):
            first = first.replace(f"SELECT {others[other]} ", f"SELECT {others[other]} AS k ", 1)
        return f"({first} {sign} {second})", {"k": kind}

    def _union_of_dimensions(self, scope: Scope) -> str:
        """Return a union of dimensions as SQL text.

        If it is joined with a fact, an optimizer rule may scan the fact once per dimension.
        """
        self._ingredients["union of dimensions"] += 1
        table = self._table(fact=False)
        columns = COLUMNS[table]
        key = self._random.choice(list(columns))
        inner = Scope(dict(columns))
        branches = [
            f"SELECT {key} AS k, {i} AS v FROM {table} WHERE {self._condition(inner)}"
            for i in range(self._random.choice((2, 2, 3)))
        ]
        alias = self._alias()
        scope.columns |= {f"{alias}.k": columns[key], f"{alias}.v": "n"}
        return f"({' UNION ALL '.join(branches)}) {alias}"

    def _measure(self, table: str) -> str:
        inner = Scope({f"{table}.{name}": kind for name, kind in COLUMNS[table].items()})
        function = self._random.choice(("max(v)", "sum(a)", "count(*)"))
        where = f" WHERE {self._condition(inner)}" if self._random.random() < 0.5 else ""
        return f"(SELECT {function} FROM {table}{where})"

    def _join(self, scope: Scope, *, fact: bool = False) -> str:
        kind = self._random.choice(
            ("JOIN",) * 6
            + ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
        )
        other = Scope()
        relation = self._relation(other, fact=fact or self._random.random() < self._more_facts)
        on = self._expressions.comparison(scope, other)
        if on is None:
            kind, on = "JOIN", "true" if len(scope.columns) < 4 else "1 = 0"
        if self._random.random() < 0.3:
            on += " AND " + (self._expressions.comparison(scope, other) or self._condition(other))
        if self._random.random() < 0.5:
            on += " AND " + self._condition(other)
        self._ingredients[kind] += 1
        if "SEMI" not in kind and "ANTI" not in kind:
            scope.columns |= other.columns
        return f" {kind} {relation} ON {on}"

    def _condition(self, scope: Scope) -> str:
        return self._expressions.condition(scope)

    def _extreme(self, scope: Scope) -> str:
        """Return a condition that compares a column with the greatest or least key of a table."""
        table = self._random.choice((*FACTS, *FACTS, *DIMENSIONS))
        key = list(COLUMNS[table])[-1]
        columns = scope.of(COLUMNS[table][key])
        if not columns:
            return self._condition(scope)
        self._ingredients["the greatest or least key"] += 1
        inner = Scope({f"{table}.{name}": kind for name, kind in COLUMNS[table].items()})
        where = f" WHERE {self._condition(inner)}" if self._random.random() < 0.6 else ""
        function = self._random.choice(("max", "max", "min"))
        sign = self._random.choice(("=", "=", "=", "<=>", ">=", "<"))
        value = f"(SELECT {function}({key}) FROM {self._in_from(table)}{where})"
        return f"{self._random.choice(columns)} {sign} {value}"

    def _subquery(self, scope: Scope) -> str:
        inner = Scope()
        relation = self._relation(inner, fact=self._random.random() < 0.2)
        pairs = [(a, b) for k in LITERALS for a in scope.of(k) for b in inner.of(k)]
        if not pairs:
            return self._condition(scope)
        outer, key = self._random.choice(pairs)
        condition = self._condition(inner)
        within = f"SELECT {key} FROM {relation} WHERE {condition}"
        self._ingredients["subquery"] += 1
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
