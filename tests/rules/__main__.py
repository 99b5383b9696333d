"""Check all rules of this repository: ``python -m tests.rules``."""

from __future__ import annotations

import sys

from tests.rules import (
    documented_attributes,
    documents,
    internals,
    layers,
    limits,
    package_docstrings,
    private_names,
    versions,
    walk,
)

RULES = (
    layers,
    limits,
    internals,
    private_names,
    documented_attributes,
    documents,
    package_docstrings,
    versions,
    walk,
)


def main() -> int:
    """Print every violation; return 1 if there are any."""
    found = 0
    for rule in RULES:
        for problem in rule.problems():
            print(f"{rule.__name__.rpartition('.')[2]}: {problem}")
            found += 1
    print(f"{len(RULES)} rules checked, {found} problems")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
