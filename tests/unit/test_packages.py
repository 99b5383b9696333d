"""What is written about the tree, in setup.cfg and in the documents, compared with the tree."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.unit.test_layers import CORE, SPARK

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = [ROOT, ROOT / "connectors", ROOT / "conformance"]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.fixture(scope="module")
def setup():
    parsed = ConfigParser()
    parsed.read(ROOT / "setup.cfg")
    return parsed


def links(document):
    """What a document links to or shows, as it is written."""
    without_code = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text("utf-8"), flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", without_code)


def in_the_repository(link, setup):
    """The path in this tree that an absolute link means, None if it leads elsewhere."""
    address = re.escape(setup["metadata"]["url"])
    found = re.fullmatch(rf"{address}/(?:blob|tree)/main/([^#]+)(?:#.*)?", link)
    return found and found[1]


def test_every_package_of_the_tree_is_installed(setup):
    listed = setup["options"]["packages"].split()
    found = {
        ".".join(path.parent.relative_to(root).parts)
        for root in SOURCE_ROOTS
        for path in root.glob("splitlib*/**/__init__.py")
    }
    assert sorted(listed) == sorted(found)


def test_links_of_the_readme_work_on_the_package_index(setup):
    found = links(ROOT / "README.md")
    assert [link for link in found if not link.startswith("https://")] == []
    paths = [path for link in found if (path := in_the_repository(link, setup))]
    assert len(paths) >= 4
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_project_urls(setup):
    urls = [line.split(" = ")[1] for line in setup["metadata"]["project_urls"].split("\n") if line]
    assert all(url.startswith(setup["metadata"]["url"]) for url in urls)
    paths = [path for url in urls if (path := in_the_repository(url, setup))]
    assert paths == ["CHANGELOG.md"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links(document):
    relative = [link for link in links(document) if not link.startswith(("https://", "#"))]
    assert [link for link in relative if not (document.parent / link).exists()] == []


def test_files_named_in_contributing_exist():
    named = set(re.findall(r"`([\w./]+/[\w.]*|[\w/]+\.(?:py|md|cfg))`", text_of("CONTRIBUTING.md")))
    assert len(named) > 30
    places = [ROOT, ROOT / "splitlib", ROOT / "splitlib/spark"]
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_contributing_has_each_room_in_its_place():
    rooms = re.findall(r"^\| `(\w+)` \|", text_of("CONTRIBUTING.md"), re.MULTILINE)
    assert rooms == CORE + SPARK


def text_of(name):
    return (ROOT / name).read_text("utf-8")
