"""Draw random comparisons of columns and random conditions on columns.

Compared columns have the same kind, are converted to the same kind, or are coerced by Spark.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field

from tests.support.abilities import without_collations

LITERALS = {
    "n": ("1", "2", "3", "5"),
    "m": ("1.00", "1.50", "2"),
    "f": ("double('NaN')", "0.0D", "-0.0D", "2.5D", "1.0D"),
    "s": ("'g1'", "'g2'", "'g9'"),
    "c": ("'g1'", "'G1'", "'g2 '"),
    "l": ("'g1'", "'G1'", "'g2 '"),
    "q": ("'1'", "'01'", "'2'"),
    "d": ("DATE'2020-02-27'", "DATE'2020-03-01'"),
    "t": ("TIMESTAMP'2020-02-27 00:00:00'", "TIMESTAMP'2020-02-28 05:00:00Z'"),
    "z": ("TIMESTAMP_NTZ'2020-02-27 00:00:00'", "TIMESTAMP_NTZ'2020-02-28 00:00:00'"),
}
"""SQL literals by kind of column. A comment in ``star_tables`` explains the kinds."""

_LONG_LISTS = {
    "n": ", ".join(map(str, range(2, 15))),
    "s": ", ".join(f"'g{i}'" for i in range(2, 15)),
    "c": ", ".join(f"'G{i}'" for i in range(1, 14)),
    "d": ", ".join(f"DATE'2020-02-{day}'" for day in range(10, 28)),
}
"""SQL lists of literals, by kind of column, that are longer than the lists Spark writes out."""

COLLATIONS = ("UTF8_LCASE", "UNICODE", "UNICODE_CI", "UTF8_BINARY_RTRIM", "UNICODE_CI_RTRIM")

# SQL conversions of a column by its kind, with the kind of the result. Most lose information.
_CASTS = {
    "n": (
        ("CAST({} AS string)", "q"), ("CAST({} AS double)", "f"), ("{} % 3", "n"),
        ("CAST({} AS decimal(10, 1))", "m"), ("CAST({} AS tinyint)", "n"), ("-{}", "n"),
        # Spark's own JSON of a plan leaves long lists of literals out.
        ("if({} IN (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22), 1, 2)", "n"),
        ("if({} IN (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23), 1, 2)", "n"),
    ),
    "m": (
        ("CAST({} AS int)", "n"), ("try_cast({} AS int)", "n"), ("CAST({} AS double)", "f"),
        ("CAST({} AS decimal(5, 0))", "m"), ("CAST({} AS string)", "q"), ("round({})", "m"),
    ),
    "f": (
        ("CAST({} AS int)", "n"), ("try_cast({} AS int)", "n"), ("CAST({} AS float)", "f"),
        ("try_cast({} AS decimal(4, 0))", "m"), ("CAST({} AS string)", "q"), ("-{}", "f"),
        ("nanvl({}, 1.0D)", "f"), ("atan2({}, -1.0D)", "f"),
    ),
    "s": (("try_cast(substr({}, 2) AS int)", "n"), ("upper({})", "c"), ("{} || ' '", "c")),
    "c": (("lower({})", "s"), ("trim({})", "c"), ("substr({}, 1, 2)", "c")),
    "l": (("lower({})", "l"), ("CAST({} AS string)", "c")),
    "q": (
        ("try_cast({} AS int)", "n"), ("CAST({} AS int)", "n"), ("try_cast({} AS double)", "f"),
        ("try_cast({} AS decimal(6, 2))", "m"), ("trim({})", "q"),
    ),
    "d": (
        ("CAST({} AS timestamp)", "t"), ("CAST({} AS timestamp_ntz)", "z"),
        ("day({}) - 25", "n"), ("trunc({}, 'MM')", "d"), ("date_add({}, 1)", "d"),
    ),
    "t": (
        ("date({})", "d"), ("CAST({} AS timestamp_ntz)", "z"), ("date_trunc('DAY', {})", "t"),
        ("try_cast({} AS date)", "d"),
    ),
    "z": (("CAST({} AS date)", "d"), ("CAST({} AS timestamp)", "t"), ("to_date({})", "d")),
}  # fmt: skip

# Pairs of kinds with different types. To compare them, Spark converts them to a common type.
_COERCED = (
    ("n", "m"), ("n", "f"), ("m", "f"), ("n", "q"), ("m", "q"), ("f", "q"), ("s", "c"), ("c", "l"),
    ("d", "t"), ("d", "z"), ("t", "z"),
)  # fmt: skip

# SQL expressions, by kind, for the end of an interval that starts at a given value.
_NEXT = {"n": "{} + 2", "m": "{} + 1", "d": "date_add({}, 2)", "s": "concat({}, '~')"}

EVERY_EXPRESSION = frozenset(
    [
        *(f"keys of kind {kind}" for kind in LITERALS),
        *(f"condition on kind {kind}" for kind in LITERALS),
        *(f"COLLATE {collation}" for collation in COLLATIONS),
        *(f"cast {kind}: {text}" for kind, casts in _CASTS.items() for text, _ in casts),
        *(f"kinds {one} and {other} compared" for one, other in _COERCED),
        "a cast on both sides",
        "a cast on one side",
        "<=>",
        "BETWEEN columns",
        "a long list",
    ]
)
"""Names of everything that this module can put into a query, as counted in ``ingredients``."""


@dataclass
class Scope:
    """The columns that conditions and the select list of a query may use."""

    columns: dict[str, str] = field(default_factory=dict)
    """Kind of each column, by its name ``alias.column``."""

    def of(self, kind: str) -> list[str]:
        """Return the names of the columns of a kind."""
        return [name for name, k in self.columns.items() if k == kind]

    def keys(self, kind: str) -> list[str]:
        """Return the columns of a kind, except ``v`` and ``a`` if there are others."""
        names = self.of(kind)
        return [n for n in names if not n.endswith((".v", ".a"))] or names


class Expressions:
    """Draws comparisons and conditions as SQL text, and counts the features that they use."""

    def __init__(self, drawn: random.Random, ingredients: Counter[str]) -> None:
        self._random = drawn
        self._ingredients = ingredients
        self._theme = ""

    def draw_theme(self) -> str:
        """Draw the kinds of columns to prefer. Return their letters; empty for no preference."""
        self._theme = self._random.choice(("", "", "f", "f", "cls", "cl", "tzd", "tz", "mqn", "q"))
        return self._theme

    def comparison(self, left: Scope, right: Scope) -> str | None:
        """Return a comparison of two columns, one of each scope; None if none can be compared."""
        match self._random.random():
            case x if x < 0.25:
                return self._with_casts(left, right)
            case x if x < 0.34:
                return self._coerced(left, right) or self._of_one_kind(left, right)
        return self._of_one_kind(left, right) or self._with_casts(left, right)

    def _of_one_kind(self, left: Scope, right: Scope) -> str | None:
        kinds = [k for k in LITERALS if left.keys(k) and right.keys(k)]
        if not kinds:
            return None
        kind = self._random.choice([k for k in kinds if k in self._theme] or kinds)
        one = self._random.choice(left.keys(kind))
        other = self._random.choice(right.keys(kind))
        if kind == "n" and self._random.random() < 0.15:
            other = f"{other} + 1"
        return self._compared(one, other, kind)

    def _compared(self, one: str, other: str, kind: str) -> str:
        self._ingredients[f"keys of kind {kind}"] += 1
        if kind in "sc" and self._random.random() < (0.5 if kind == "c" else 0.25):
            collation = self._random.choice(COLLATIONS)
            self._ingredients[f"COLLATE {collation}"] += 1
            one = without_collations(f"{one} COLLATE {collation}")
            other = without_collations(f"{other} COLLATE {collation}")
        match self._random.random():
            case x if x < 0.7:
                return f"{one} = {other}"
            case x if x < 0.8:
                self._ingredients["<=>"] += 1
                return f"{one} <=> {other}"
            case x if x < 0.9 or kind not in _NEXT:
                return f"{one} {self._random.choice(('<', '<=', '>', '>='))} {other}"
        self._ingredients["BETWEEN columns"] += 1
        after, before = self._random.choice((">", ">=")), self._random.choice(("<", "<="))
        text = f"{one} {after} {other} AND {one} {before} {_NEXT[kind].format(other)}"
        return self._random.choice((f"{one} BETWEEN {other} AND {_NEXT[kind].format(other)}", text))

    def _with_casts(self, left: Scope, right: Scope) -> str | None:
        """Return a comparison of two columns after at least one of them is converted."""
        pairs = [
            (one, other)
            for one, other in itertools.product(self._converted(left), self._converted(right))
            if one[1] == other[1] and (one[2] or other[2])
        ]
        if not pairs:
            return None
        # First draw a conversion, then columns for it. Thus all conversions are equally frequent.
        casts = sorted({cast for pair in pairs for _, _, cast in pair if cast})
        cast = self._random.choice([c for c in casts if c[0] in self._theme] or casts)
        one, other = self._random.choice([p for p in pairs if cast in (p[0][2], p[1][2])])
        for _, _, cast in (one, other):
            if cast:
                self._ingredients[f"cast {cast}"] += 1
        both = one[2] and other[2]
        self._ingredients["a cast on both sides" if both else "a cast on one side"] += 1
        return self._compared(one[0], other[0], one[1])

    def function_of(self, column: str, kind: str) -> tuple[str, str]:
        """Return a conversion of a column as SQL text, and its kind."""
        text, kind = self._random.choice(_CASTS[kind])
        return text.format(column), kind

    def _converted(self, scope: Scope) -> list[tuple[str, str, str]]:
        """Return each column as it is and with each conversion: SQL text, kind, conversion."""
        found = []
        for kind in LITERALS:
            for name in scope.keys(kind):
                found.append((name, kind, ""))
                found += [
                    (text.format(name), to, f"{kind}: {text}") for text, to in _CASTS.get(kind, ())
                ]
        return found

    def _coerced(self, left: Scope, right: Scope) -> str | None:
        both = [*_COERCED, *((b, a) for a, b in _COERCED)]
        pairs = [(a, b) for a, b in both if left.keys(a) and right.keys(b)]
        if not pairs:
            return None
        preferred = [(a, b) for a, b in pairs if a in self._theme or b in self._theme]
        one, other = self._random.choice(preferred or pairs)
        kinds = (one, other) if (one, other) in _COERCED else (other, one)
        self._ingredients["kinds {} and {} compared".format(*kinds)] += 1
        sign = self._random.choice(("=", "=", "=", "<=>", "<", ">="))
        left_name, right_name = (
            self._random.choice(left.keys(one)),
            self._random.choice(right.keys(other)),
        )
        return f"{left_name} {sign} {right_name}"

    def condition(self, scope: Scope) -> str:
        """Return a condition that compares a column of the scope with literals."""
        column = self._random.choice(list(scope.columns))
        kind = scope.columns[column]
        self._ingredients[f"condition on kind {kind}"] += 1
        if self._random.random() < 0.2 and kind in _CASTS:
            text, kind = self._random.choice(_CASTS[kind])
            column = f"({text.format(column)})"
        if kind in "sc" and self._random.random() < 0.2:
            collated = f"({column} COLLATE {self._random.choice(COLLATIONS)})"
            column = without_collations(collated)
        if kind in _LONG_LISTS and self._random.random() < 0.1:
            self._ingredients["a long list"] += 1
            return f"{column} {self._random.choice(('IN', 'NOT IN'))} ({_LONG_LISTS[kind]})"
        literals = LITERALS[kind]
        one, other = self._random.choice(literals), self._random.choice(literals)
        return self._random.choice(
            (
                f"{column} = {one}",
                f"{column} IN ({one}, {other})",
                f"{column} >= {one}",
                f"{column} < {one}",
                f"{column} BETWEEN {one} AND {other}",
                f"({column} = {one} OR {column} IS NULL)",
                f"({column} = {one} OR {column} = {other})",
                f"{column} IS NOT NULL",
                f"NOT ({column} = {one})",
                f"NOT ({column} < {one})",
            )
        )
