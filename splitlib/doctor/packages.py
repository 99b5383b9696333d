"""Check the versions of installed packages, and which extras are installed."""

from __future__ import annotations

import importlib.metadata
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from splitlib.doctor.finding import GOOD, NOTE, PROBLEM, Finding
from splitlib.doctor.machine import numbers

_REQUIREMENT: Final = re.compile(
    r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;()@]*)\)?\s*(?:;(.*))?"
)
_EXTRA: Final = re.compile(r"extra\s*==\s*[\"']([^\"']+)[\"']")
_BOUND: Final = re.compile(r"\s*(>=|<=|==|!=|<|>)\s*([\w.]+)\s*")
# What each extra is for. Other extras are named after the connector that they belong to.
PURPOSES: Final = {
    "azure": "tables on Azure that the driver lists",
    "delta": "the connector delta, for deletion vectors",
    "duckdb": "Table.to_duckdb",
    "gcs": "tables on Google Cloud Storage that the driver lists",
    "glue": "the connector glue, for the AWS Glue Data Catalog",
    "hive": "the connector hive, for a Hive metastore",
    "iceberg": "the connector iceberg, for every catalog that PyIceberg loads",
    "polars": "Table.to_polars",
    "s3": "tables on S3 that the driver lists",
    "spark": "everything that runs in Spark",
}
# Extras for the demo, for benchmarks and for developers, and an extra that consists of others.
_OTHER_EXTRAS: Final = frozenset({"all", "bench", "conformance", "demo", "dev", "docs"})


class Requirement(NamedTuple):
    """A package that splitlib needs, or that one of its extras needs."""

    name: str
    bounds: str
    """Versions that fit, such as ``>=22,<28``."""
    extra: str
    """Name of the extra; empty if splitlib always needs the package."""

    @classmethod
    def of(cls, line: str) -> Requirement | None:
        """Parse a line ``Requires-Dist`` of a package's metadata; None if it is not understood."""
        found = _REQUIREMENT.fullmatch(line.strip())
        if found is None:
            return None
        extra = _EXTRA.search(found[3] or "")
        return cls(found[1].lower(), found[2].replace(" ", ""), extra[1] if extra else "")

    def fits(self, version: str) -> bool:
        """Return whether a version is within the bounds. Bounds of other forms count as met."""
        return all(_is_within(version, bound) for bound in self.bounds.split(","))


def _is_within(version: str, bound: str) -> bool:
    found = _BOUND.fullmatch(bound)
    if found is None or not numbers(version):
        return True
    width = max(len(numbers(version)), len(numbers(found[2])))
    own, other = ((*numbers(v), *[0] * (width - len(numbers(v)))) for v in (version, found[2]))
    match found[1]:
        case ">=":
            return own >= other
        case "<=":
            return own <= other
        case "<":
            return own < other
        case ">":
            return own > other
        case "==":
            return own == other
    return own != other


def installed_version(name: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def own_requirements() -> list[Requirement]:
    """Return the packages that the installed splitlib names; empty if it is not installed."""
    try:
        lines = importlib.metadata.requires("splitlib") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = map(Requirement.of, lines)
    return [one for one in found if one is not None and one.name != "splitlib"]


def package_findings(
    requirements: Iterable[Requirement],
    version_of: Callable[[str], str | None] = installed_version,
) -> Iterator[Finding]:
    """Yield the findings about versions of packages, then about extras.

    Args:
        requirements: Packages that splitlib and its extras need.
        version_of: Function that returns the version of an installed package.
    """
    by_extra: dict[str, list[Requirement]] = defaultdict(list)
    for one in requirements:
        if one.extra not in _OTHER_EXTRAS:
            by_extra[one.extra].append(one)
    if not by_extra:
        text = "splitlib runs from a directory of sources, so the packages it needs are unknown."
        yield Finding("packages", NOTE, text, "pip install splitlib")
        return
    versions = {o.name: version_of(o.name) for group in by_extra.values() for o in group}
    yield from _versions(by_extra, versions)
    for extra in sorted(filter(None, by_extra)):
        purpose = PURPOSES.get(extra, f"the connector {extra}")
        missing = [one.name for one in by_extra[extra] if versions[one.name] is None]
        if not missing:
            yield Finding(f"extra {extra}", GOOD, f"Installed, for {purpose}.")
            continue
        text = f"{', '.join(missing)} is not installed, for {purpose}."
        advice = f"if you need it, run: pip install 'splitlib[{extra}]'"
        yield Finding(f"extra {extra}", NOTE, text, advice)


def _versions(
    by_extra: dict[str, list[Requirement]], versions: dict[str, str | None]
) -> Iterator[Finding]:
    wrong = dict.fromkeys(
        Finding(
            "packages",
            PROBLEM,
            f"{one.name} {version} is installed, but splitlib needs {one.bounds}.",
            f"run: pip install '{one.name}{one.bounds}'",
        )
        for group in by_extra.values()
        for one in group
        if (version := versions[one.name]) is not None and not one.fits(version)
    )
    for one in by_extra[""]:
        if versions[one.name] is None:
            text, advice = f"{one.name} is not installed.", f"run: pip install '{one.name}'"
            wrong[Finding("packages", PROBLEM, text, advice)] = None
    yield from wrong
    if not wrong:
        shown = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        yield Finding("packages", GOOD, f"The installed versions fit: {shown}.")
