"""Names, values and locations with characters that are encoded in paths or URIs."""

from __future__ import annotations

from tests.interop.reference.lake import Lake
from tests.interop.reference.recipe import recipe

_ODD = ["a b", "a%20b", "a%b", "a/b", "a=b", "a+b", "a#b", "a?b", "[b]", "{b}", "a:b", "é", "日本"]
_ODD += ["__HIVE_DEFAULT_PARTITION__", "null", ".", "..", " ", "", '"', "\\\\", "a&b", "😀"]


@recipe("k", ("k", "id"), formats=(3,))
def odd_values(lake: Lake) -> None:
    lake.create("id BIGINT, k STRING", "k")
    rows = [f"({i}, '{value}')" for i, value in enumerate(_ODD)]
    lake.insert(", ".join([*rows, "(100, NULL)"]), ", ".join(rows))
    lake.sql("DELETE FROM {t} WHERE id % 4 = 1")


@recipe("b a", "é")
def odd_columns(lake: Lake) -> None:
    lake.create(
        "`a b` INT, `é` STRING, `x.y` INT, `1st` INT, `a-b` INT, `q``r` INT, `%20` STRING",
        "`a b`, truncate(1, `é`), bucket(2, `1st`)",
    )
    lake.insert(
        """(1, 'éa', 2, 3, 4, 5, '6'), (2, 'b', 3, 4, 5, 6, '7'),
           (NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""
    )
    lake.alter("RENAME COLUMN `a b` TO `b a`")
    lake.insert("(1, 'éa', 2, 3, 4, 5, '6'), (3, 'c', 3, 4, 2, 6, '7')")
    lake.sql("DELETE FROM {t} WHERE `%20` = '6' AND `x.y` = 2 AND `a-b` = 4 AND `é` LIKE 'é%'")


def _at(lake: Lake, directory: str) -> None:
    lake.create("id BIGINT, k STRING", "k", location=f"{lake.root}/{directory}/{lake.short_name}")
    lake.insert("(1, 'a b'), (2, 'é'), (3, 'a%20b'), (4, 'c')", "(5, 'a b'), (6, 'c')")
    lake.sql("DELETE FROM {t} WHERE id IN (1, 5, 6)")


@recipe("k", "id", formats=(3,))
def at_a_place_with_a_space(lake: Lake) -> None:
    _at(lake, "a b")


@recipe("k", "id")
def at_a_place_with_an_escape(lake: Lake) -> None:
    """A reader that unescapes the path would look in another directory."""
    _at(lake, "a%20b")


@recipe("k", "id", formats=(3,))
def at_a_place_with_an_accent(lake: Lake) -> None:
    _at(lake, "é è+&=")
