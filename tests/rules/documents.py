"""Rule: packages in setup.cfg, links in documents, and names in CONTRIBUTING.md exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

from tests.rules.layers import CORE, SPARK

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = [ROOT, ROOT / "connectors", ROOT / "conformance"]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def _links(document: Path) -> list[str]:
    """Return the targets of the links and images of a document."""
    without_code = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text("utf-8"), flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", without_code)


def _packages(setup: ConfigParser) -> Iterator[str]:
    listed = set(setup["options"]["packages"].split())
    found = {
        ".".join(path.parent.relative_to(root).parts)
        for root in SOURCE_ROOTS
        for path in root.glob("splitlib*/**/__init__.py")
    }
    yield from (f"setup.cfg does not list the package {name}" for name in sorted(found - listed))
    yield from (f"setup.cfg lists {name}, which does not exist" for name in sorted(listed - found))


def _links_of_the_readme(setup: ConfigParser) -> Iterator[str]:
    """Yield links that would not work on the package index, where the README is shown too."""
    url = setup["metadata"]["url"]
    targets = _links(ROOT / "README.md")
    targets += [line.split(" = ")[1] for line in setup["metadata"]["project_urls"].splitlines()[1:]]
    assert len(targets) > 5
    for link in targets:
        if not link.startswith("https://"):
            yield f"README.md: the link {link} is relative"
        here = re.fullmatch(rf"{re.escape(url)}/(?:blob|tree)/main/([^#]+)(?:#.*)?", link)
        if here and not (ROOT / here[1]).exists():
            yield f"README.md or setup.cfg: {link} does not exist"


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings of a document, as the site and GitHub make them."""
    text = re.sub(r"```.*?```", "", document.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", heading) for heading in words}


def broken_links(document: Path) -> Iterator[str]:
    """Yield the relative links of a document whose file or anchor does not exist."""
    for link in _links(document):
        if not link.startswith("https://"):
            path, _, anchor = link.partition("#")
            target = document.parent / path if path else document
            is_page = target.exists() and target.suffix == ".md"
            if not target.exists() or (anchor and is_page and anchor not in anchors(target)):
                yield link


def _relative_links() -> Iterator[str]:
    for document in DOCUMENTS:
        for link in broken_links(document):
            yield f"{document.relative_to(ROOT)}: {link} does not exist"


def _contributing() -> Iterator[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"`([\w./]+/[\w.]*|[\w/]+\.(?:py|md|cfg))`", text))
    assert len(named) > 30
    spark = ROOT / "splitlib/spark"
    places = [ROOT, ROOT / "splitlib", spark, spark / "planner"]
    for name in sorted(named):
        if not any((place / name).exists() for place in places):
            yield f"CONTRIBUTING.md: {name} does not exist"
    if re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) != CORE + SPARK:
        yield "CONTRIBUTING.md: the table of layers differs from tests/rules/layers.py"


def problems() -> Iterator[str]:
    """Yield packages missing from the installation, and broken names and links."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    yield from _packages(setup)
    yield from _links_of_the_readme(setup)
    yield from _relative_links()
    yield from _contributing()
