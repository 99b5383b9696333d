"""The table of capabilities in docs/connectors.md, from the results of the kit.

``python -m tests.conformance.capabilities`` runs the kit on all connectors and writes the table;
with names of connectors, such as ``delta``, it replaces only their columns. Each run of the kit
compares its results with the table, see ``conftest.py``.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

COLUMNS: Final = {
    "TestFiles": "files",
    "TestHive": "hive",
    "TestSession": "session",
    "TestIceberg": "iceberg",
    "TestDelta": "delta",
    "TestDeltaByFieldId": "delta by id",
    "TestGlue": "glue",
}
"""The column of each test class. Other classes, such as those with one key case, have none."""
CONNECTORS: Final = tuple(COLUMNS.values())
GUIDE: Final = Path(__file__).parents[2] / "docs" / "connectors.md"
YES, LACKS, NOT_TRIED = "yes", "–", "not tried"
PROPERTY: Final = "capability"
WRITER: Final = "writer of capabilities"
"""Name of the plugin of pytest that collects the cells of a new table."""
_BEGIN, _END = "<!-- capabilities -->\n", "<!-- end of capabilities -->\n"
Table = dict[str, dict[str, str]]
"""A cell for each scenario and connector. Scenarios that all connectors pass are left out."""


def scenario_of(item: pytest.Item) -> tuple[str, str, bool] | None:
    """Return column and scenario of a test of the kit, and whether the test has parameters.

    The result is None for another test.
    """
    # Imported here, because pytest must rewrite the assertions of the kit first.
    from splitlib_conformance import ConnectorConformance

    if not isinstance(item, pytest.Function) or item.cls is None:
        return None
    name = item.originalname
    connector = COLUMNS.get(item.cls.__name__)
    if connector is None or not hasattr(ConnectorConformance, name):
        return None
    callspec = getattr(item, "callspec", None)
    parameters = {} if callspec is None else callspec.params
    if "key_case" in parameters:
        return connector, f"partition keys: {parameters['key_case'].name}", True
    return connector, name.removeprefix("test_").replace("_", " "), bool(parameters)


def cell_of(report: pytest.TestReport) -> str | None:
    """Return the cell for the result of a test; None if the result says nothing."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return LACKS if "the connector" in report.longrepr[2] else NOT_TRIED
    return YES if report.when == "call" and report.passed else None


def read() -> Table:
    """Return the table in the guide."""
    text = GUIDE.read_text("utf-8").partition(_BEGIN)[2].partition(_END)[0]
    rows = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    if not rows:
        return {}
    head, *body = rows
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in body}


def expected(table: Mapping[str, Mapping[str, str]], connector: str, scenario: str) -> str:
    """Return the cell that the table has for a scenario."""
    return table.get(scenario, {}).get(connector, YES)


def write(table: Table) -> None:
    """Write the table to the guide."""
    lines = [f"| scenario | {' | '.join(CONNECTORS)} |", "|---" * (1 + len(CONNECTORS)) + "|"]
    for scenario, cells in sorted(table.items()):
        if set(cells.values()) != {YES}:
            shown = " | ".join(cells.get(connector, YES) for connector in CONNECTORS)
            lines.append(f"| {scenario} | {shown} |")
    before, begin, rest = GUIDE.read_text("utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    GUIDE.write_text(
        "".join([before, begin, *(f"{line}\n" for line in lines), end, after]), "utf-8"
    )


class Collector:
    """A plugin of pytest that collects the cells of the tests that run."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, str], set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the result of a test."""
        cell = cell_of(report)
        for name, value in report.user_properties if cell is not None else ():
            if name == PROPERTY and isinstance(value, tuple | list):
                self.cells[value[0], value[1]].add(str(cell))

    def results(self) -> Iterator[tuple[str, str, str]]:
        """Yield connector, scenario and cell. A scenario with a passed case counts as passed."""
        for (connector, scenario), cells in self.cells.items():
            yield connector, scenario, next(c for c in (YES, LACKS, NOT_TRIED) if c in cells)


def main(connectors: list[str]) -> int:
    """Run the kit on connectors, and write their columns of the table."""
    collector = Collector()
    chosen = connectors or sorted({column.partition(" ")[0] for column in CONNECTORS})
    files = [str(Path(__file__).parent / f"test_{connector}.py") for connector in chosen]

    class Named:
        """Registers the collector with its name."""

        def pytest_configure(self, config: pytest.Config) -> None:
            config.pluginmanager.register(collector, WRITER)

    code = pytest.main(["-q", *files], plugins=[Named()])
    if code != pytest.ExitCode.OK:
        return int(code)
    table = {
        scenario: {each: cells.get(each, YES) for each in CONNECTORS}
        for scenario, cells in read().items()
    }
    for connector, scenario, cell in collector.results():
        known = table.setdefault(scenario, dict.fromkeys(CONNECTORS, YES))
        known[connector] = cell
    write(table)
    return 0


def is_stale(report: pytest.TestReport, table: Mapping[str, Mapping[str, str]]) -> str | None:
    """Return a message if the table has another cell than the result of a test; None if not."""
    cell = cell_of(report)
    for name, value in report.user_properties if cell is not None else ():
        if name == PROPERTY and isinstance(value, tuple | list):
            connector, scenario, has_cases = value
            known = expected(table, connector, scenario)
            # Some cases of a test may be skipped while others pass: types without statistics.
            if known != cell and not (has_cases and cell != YES):
                return (
                    f"docs/connectors.md has {known!r} for {connector} and {scenario!r}, but the "
                    f"kit's result is {cell!r}: run python -m tests.conformance.capabilities."
                )
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
