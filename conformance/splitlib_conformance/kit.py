"""The whole kit as one class."""

from __future__ import annotations

from splitlib_conformance.content import ContentTests
from splitlib_conformance.contract import ContractTests
from splitlib_conformance.economy import EconomyTests
from splitlib_conformance.filtering import FilteringTests


class ConnectorConformance(ContentTests, FilteringTests, EconomyTests, ContractTests):
    """What every connector must do; see :mod:`splitlib_conformance` for how to adopt it.

    A subclass, whose name begins with ``Test``, gives :attr:`connector`, a fixture ``harness``
    and, if the connector has them, its :attr:`capabilities`.
    """
