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
    """All tests of a connector; see :mod:`splitlib_conformance` for how to adopt them.

    A subclass, whose name begins with ``Test``, defines :attr:`connector`, a fixture ``harness``
    and, if the connector implements protocols, its :attr:`capabilities`.
    """
