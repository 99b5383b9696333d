"""The whole kit as one class."""

from __future__ import annotations

from splitlib_conformance.abilities import AbilitiesTests
from splitlib_conformance.content import ContentTests
from splitlib_conformance.contract import ContractTests
from splitlib_conformance.economy import EconomyTests
from splitlib_conformance.faults import FaultTests
from splitlib_conformance.filtering import FilteringTests
from splitlib_conformance.lifetime import LifetimeTests
from splitlib_conformance.pages import PagesTests
from splitlib_conformance.statistics import StatisticsTests


class ConnectorConformance(
    ContentTests,
    FilteringTests,
    PagesTests,
    EconomyTests,
    ContractTests,
    StatisticsTests,
    AbilitiesTests,
    LifetimeTests,
    FaultTests,
):
    """All tests in the kit. :mod:`splitlib_conformance` describes how to adopt them.

    Write a subclass with a name that begins with ``Test``. Define :attr:`connector` and a fixture
    ``harness`` in it, and :attr:`capabilities` if the connector implements optional protocols.
    """
