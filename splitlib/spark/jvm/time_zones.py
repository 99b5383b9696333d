"""Rules of Java's time zones, by which Spark converts instants to local times."""

from __future__ import annotations

import re
from collections.abc import Callable

from splitlib.spark.jvm.gateway import Jvm


def zone_rules(jvm: Jvm, zone: str) -> Callable[[int], tuple[int, int | None]]:
    """Return a function that looks up the UTC offset of a time zone.

    The function receives an instant in seconds since 1970. It returns the offset from UTC at this
    instant, in seconds, and the instant at which the offset next changes (None if it never does).

    Raises:
        Py4JJavaError: if Java does not have the time zone.
    """
    # Spark also accepts the offsets +h:mm and +hh:m, which Java rejects.
    zone = re.sub(r"([+-])(\d):", r"\g<1>0\2:", zone)
    zone = re.sub(r"([+-]\d\d):(\d)$", r"\1:0\2", zone)
    zones, instants = jvm.class_("java.time.ZoneId"), jvm.class_("java.time.Instant")
    rules = zones.of(zone, zones.SHORT_IDS).getRules()

    def at(second: int) -> tuple[int, int | None]:
        instant = instants.ofEpochSecond(second)
        change = rules.nextTransition(instant)
        offset = int(rules.getOffset(instant).getTotalSeconds())
        return offset, None if change is None else int(change.toEpochSecond())

    return at
