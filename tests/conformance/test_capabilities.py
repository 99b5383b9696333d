"""The table of capabilities in docs/connectors.md is compared with the results of the kit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from splitlib_conformance import ConnectorConformance
from splitlib_conformance.key_cases import KEY_CASES
from tests.conformance import capabilities
from tests.conformance.capabilities import LACKS, NOT_TRIED, YES

ABILITY = "not tried: the connector has no SupportsHosts"
HARNESS = "not tried: the harness has no way to drop a table (drop_table)"


def report(scenario, *, reason=None, when="call"):
    skipped = ("f", 1, f"Skipped: {reason}")
    found: Any = SimpleNamespace(
        passed=reason is None,
        skipped=reason is not None,
        when=when,
        longrepr=None if reason is None else skipped,
        user_properties=[(capabilities.PROPERTY, ("files", scenario, ":" in scenario))],
    )
    return found


@pytest.mark.parametrize(
    ("scenario", "cell", "result", "stale"),
    [
        ("hosts", YES, {}, False),
        ("hosts", YES, {"reason": ABILITY}, True),
        ("hosts", LACKS, {"reason": ABILITY}, False),
        ("hosts", LACKS, {"reason": HARNESS}, True),
        ("hosts", LACKS, {}, True),
        ("hosts", NOT_TRIED, {"when": "setup"}, False),
        ("partition keys: date", YES, {"reason": HARNESS}, False),
        ("partition keys: date", NOT_TRIED, {}, True),
        ("partition keys: date", LACKS, {"reason": HARNESS}, False),
        ("partition keys: date", YES, {"reason": ABILITY}, False),
    ],
)
def test_a_stale_cell_is_noticed(scenario, cell, result, stale):
    table = {scenario: {"files": cell}} if cell != YES else {}
    message = capabilities.is_stale(report(scenario, **result), table)
    assert (message is not None) == stale
    if message is not None:
        assert "python -m tests.conformance.capabilities" in message


def test_the_scenarios_of_the_table_exist():
    tests = {name.removeprefix("test_").replace("_", " ") for name in dir(ConnectorConformance)}
    keys = {f"partition keys: {case.name}" for case in KEY_CASES}
    table = capabilities.read()
    assert len(table) > 5
    for scenario, cells in table.items():
        assert scenario in tests | keys
        assert tuple(cells) == capabilities.CONNECTORS
        assert set(cells.values()) <= {YES, LACKS, NOT_TRIED}
        assert set(cells.values()) != {YES}


def test_the_scenario_of_a_test(request):
    assert capabilities.scenario_of(request.node) is None
