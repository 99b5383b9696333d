from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = [ROOT, ROOT / "connectors", ROOT / "conformance"]


def test_every_package_of_the_tree_is_installed():
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = setup["options"]["packages"].split()
    found = {
        ".".join(path.parent.relative_to(root).parts)
        for root in SOURCE_ROOTS
        for path in root.glob("splitlib*/**/__init__.py")
    }
    assert sorted(listed) == sorted(found)
