"""Athena's partition projection: partitions computed from the properties of a table.

Athena ignores the registered partitions of such a table. Spark and the metastore ignore the
projection. Source: the pages "partition projection" of the user guide of Amazon Athena.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa

from splitlib.errors import UnsupportedTable
from splitlib.hive.partition_values import escape
from splitlib.hive.projected_values import Projected, projected

_PREFIX: Final = "projection."
_TEMPLATE: Final = "storage.location.template"
_PLACE: Final = re.compile(r"\$\{([^}]*)\}")


def is_projected(parameters: Mapping[str, str]) -> bool:
    """Return whether Athena computes the partitions of a table with these parameters."""
    return parameters.get(f"{_PREFIX}enabled", "").strip().lower() == "true"


class Projection:
    """The projection of one table.

    Args:
        parameters: Parameters of the table.
        keys: The partition keys with the table's types.
        location: Location of the table; None if it has none.

    Raises:
        UnsupportedTable: if the location of a partition is not certain.
    """

    def __init__(
        self, parameters: Mapping[str, str], keys: pa.Schema, location: str | None
    ) -> None:
        self._keys = keys
        self._properties: dict[str, dict[str, str]] = {key.lower(): {} for key in keys.names}
        for name, value in parameters.items():
            for key, found in self._properties.items():
                if name.lower().startswith(f"{_PREFIX}{key}."):
                    found[name[len(_PREFIX) + len(key) + 1 :].lower()] = value
        template, self._root = parameters.get(_TEMPLATE), ""
        self._escapes = template is None
        if template is None:
            if not location:
                raise _no_location(f"The table has no location and no {_TEMPLATE}.")
            named = "/".join(f"{escape(key.lower())}=${{{key.lower()}}}" for key in keys.names)
            template, self._root = named, location.rstrip("/") + "/"
        pieces = _PLACE.split(template.rstrip("/"))
        self._literals, self._places = pieces[::2], [each.lower() for each in pieces[1::2]]
        if set(self._places) != set(self._properties):
            raise _no_location(
                f"{_TEMPLATE} {template!r} does not have a placeholder for each partition key "
                "and no others."
            )

    def values(self, now: datetime) -> list[Projected]:
        """Return the projected values of each key.

        Args:
            now: The current time in UTC, without a time zone.

        Raises:
            UnsupportedTable: for a projection that Athena rejects, or whose values are not certain.
        """
        return [projected(key, self._properties[key.name.lower()], now) for key in self._keys]

    def location(self, values: Sequence[str]) -> str:
        """Return the location of a partition.

        Args:
            values: Value of each key, as :meth:`Projected.in_location` writes it.
        """
        named = dict(zip(self._properties, values, strict=True))
        parts = [self._root, self._literals[0]]
        for place, literal in zip(self._places, self._literals[1:], strict=True):
            parts += [escape(named[place]) if self._escapes else named[place], literal]
        return "".join(parts)


def _no_location(message: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"The locations of projected partitions are not certain. {message}",
        hint="correct the table's properties, or pass partition_projection=False to read the "
        "registered partitions.",
    )
