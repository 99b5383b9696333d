"""Whether this session's Spark has the insides that splitlib uses."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

_KNOWN_VERSIONS: Final = ("4.0.", "4.1.", "4.2.", "4.3.")


def internals_unavailable(session: object) -> str | None:
    """Why Spark's internals are not used in a session, as a clause; None if they are."""
    if not isinstance(session, SparkSession):
        return "Spark Connect gives no access to the JVM"
    if not session.version.startswith(_KNOWN_VERSIONS):
        return f"Spark {session.version} is not one of the versions known, 4.0 to 4.3"
    return None
