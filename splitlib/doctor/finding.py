"""The result of one check."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from splitlib.redaction import redact

GOOD: Final = "good"
NOTE: Final = "note"
PROBLEM: Final = "problem"


class Finding(NamedTuple):
    """The result of one check, as a sentence and an advice.

    Attributes:
        check: Name of the check, such as ``java``.
        status: ``good``; ``note`` for something optional that is missing or was not checked; or
            ``problem``.
        text: What was found, as one sentence.
        advice: What to do, as one sentence; empty if there is nothing to do.
    """

    check: str
    status: str
    text: str
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values for JSON, without credentials."""
        return {name: redact(value) for name, value in self._asdict().items()}

    def __str__(self) -> str:
        advice = f" -> {self.advice}" if self.advice else ""
        return redact(f"{self.status:<7}  {self.check:<14}  {self.text}{advice}")
