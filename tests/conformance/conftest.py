"""Each test of the kit compares its result with the table of capabilities in the guide."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.conformance import capabilities


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test of the kit whose result differs from the table in docs/connectors.md."""
    report = yield
    found = capabilities.scenario_of(item)
    if found is not None:
        report.user_properties = [*report.user_properties, (capabilities.PROPERTY, found)]
        message = capabilities.is_stale(report, capabilities.read())
        if message is not None and not item.config.pluginmanager.has_plugin(capabilities.WRITER):
            report.outcome = "failed"
            report.longrepr = message
    return report
