"""The reference has every public name, setting, option and command exactly once."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

import splitlib
import splitlib_conformance
from splitlib import coordination, errors, spi, testing
from splitlib.cli.app import command_line, commands_of, options_of
from splitlib.config import SplitConfig
from splitlib.errors import ConfigError
from splitlib.registry import connector_class
from tests.documents.examples import DOCS, ROOT

PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def page(name: str) -> str:
    return (DOCS / "reference" / f"{name}.md").read_text("utf-8")


def found(name: str) -> Any:
    """Return the object with a dotted name, such as ``splitlib.report.Count``."""
    module, _, attribute = name.rpartition(".")
    above = importlib.import_module(module) if module else None
    return getattr(above, attribute, None) or importlib.import_module(name)


def directives(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the object of each entry that mkdocstrings writes for a page.

    An entry for a module stands for the members that its options name.
    """
    for name, options in re.findall(r"^::: (\S+)(?:\n    options: (.*))?$", text, re.MULTILINE):
        target, members = found(name), re.search(r"members: \[([^]]*)\]", options)
        if isinstance(target, type(re)):
            assert members is not None, f"{name} has no list of members"
            for member in members[1].split(", "):
                yield member, getattr(target, member)
        else:
            yield name.rpartition(".")[2], target


def entries() -> Counter[str]:
    """Return how often the pages of the reference have each name."""
    shown = [(n, o) for each in ("api", "spi") for n, o in directives(page(each))]
    names = {id(o): n for n, o in shown}
    counts = Counter(names[id(o)] for _, o in shown)
    counts.update(re.findall(r"^\| `(\w+)` \|", page("errors"), re.MULTILINE))
    return counts


def test_every_name_is_documented_once() -> None:
    pytest.importorskip("pyspark.sql.datasource", reason="this PySpark has no data sources")
    counts = entries()
    assert {name: n for name, n in counts.items() if n > 1} == {}
    public = {
        *splitlib.__all__,
        *spi.__all__,
        *errors.__all__,
        *coordination.__all__,
        *testing.__all__,
        *splitlib_conformance.__all__,
    }
    assert {name for name in public - {"__version__"} if counts[name] != 1} == set()


def test_every_setting_is_documented_once() -> None:
    headings = re.findall(r"^## (\w+)$", page("settings"), re.MULTILINE)
    assert headings == [spec.name for spec in fields(SplitConfig)]


def options_on_page(title: str) -> list[str]:
    section = page("options").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \| `", section, re.MULTILINE)


@pytest.mark.parametrize("name", ["delta", "files", "glue", "hive", "session"])
def test_every_option_of_a_connector_is_documented_once(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        connector_class(name).open("db.t", {"0": ""})
    known = str(raised.value).partition(" connector are ")[2].rstrip(".")
    assert sorted(options_on_page(name)) == sorted(known.split(", "))


def test_every_option_of_the_data_source_is_documented_once() -> None:
    plan = pytest.importorskip("splitlib.spark.datasource.plan", exc_type=ImportError)
    shown = [n.partition(".")[0] for n in options_on_page('Data source: `format("splitlib")`')]
    assert len(shown) == len(set(shown))
    given = dict.fromkeys(shown, "x") | {"filter": "", "maxBytesPerTrigger": "1g"}
    with pytest.raises(splitlib.InvalidFilter):  # no option is unknown
        plan.ReadOptions.parse(given)


def test_examples_of_commands_have_existing_options() -> None:
    commands = commands_of(command_line())
    tried = set()
    for path in PAGES:
        text = path.read_text("utf-8")
        for name, rest in re.findall(r"(?:^\$ |`)splitlib ([a-z][a-z-]*)([^`\n|]*)", text, re.M):
            assert name in commands, f"{path.name}: splitlib {name}"
            given = re.findall(r"(?<= )--[a-z-]+", rest)
            unknown = set(given) - {*options_of(commands[name]), "--help"}
            assert not unknown, f"{path.name}: splitlib {name} {unknown}"
            tried.update(given)
    assert len(tried) >= 8
