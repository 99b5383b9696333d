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
    """All tests of the kit. :mod:`splitlib_conformance` describes how to adopt them.

    Make a subclass whose name begins with ``Test``. It defines :attr:`connector` and a fixture
    ``harness``, and :attr:`capabilities` if the connector implements optional protocols.
    """
