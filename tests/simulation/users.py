"""Shared parts of the scenarios: they change the table, send filters and record calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from splitlib.coordination.coordinator import SplitResponse
from tests.simulation.setting import Setting
from tests.simulation.table_model import Filter

T = TypeVar("T")


def attempt(setting: Setting, kind: str, call: Callable[[], T], **data: Any) -> T | None:
    """Make a call, and record it in the history with its answer or error.

    Returns:
        The result of the call, or None after an error.
    """
    progress = kind != "request"  # a reader may repeat requests for ever without any progress
    span = setting.history.begin(kind, progress=progress, **data)
    try:
        result = call()
    except Exception as error:
        setting.history.end(span, progress=progress, **described(error))
        return None
    answer = {"answer": result} if isinstance(result, SplitResponse) else {}
    setting.history.end(span, progress=progress, **answer)
    return result


def described(error: BaseException) -> dict[str, Any]:
    """Return a description of an error for the history.

    The history does not store the error itself, because its traceback would keep objects alive.
    """
    where = {name: getattr(error, name, None) for name in ("connector", "table")}
    return {"error": type(error).__name__, "message": str(error), **where}


def change_table(setting: Setting) -> None:
    """Make a few random changes to the table."""
    random = setting.random
    recreate, pace = random.random() < 0.5, random.choice([0.1, 1, 3])
    for _ in range(random.randint(1, 4)):
        setting.sleep_up_to(pace)
        setting.model.change(recreate=recreate)


class Producer:
    """A producer that sends a filter once, several times or never.

    Args:
        setting: Setting of the run.
        name: Name of the producer. None for a producer without a name.
        deliver: Function that passes a filter to splitlib.
    """

    def __init__(
        self,
        setting: Setting,
        name: str | None,
        deliver: Callable[[Filter, str | None], object],
    ) -> None:
        self._setting, self._deliver = setting, deliver
        self.name = name
        self._filter = setting.model.filter(statistics=setting.abilities.statistics)
        self._never = setting.random.random() < 0.15
        self._delay = setting.random.choice([0, 0.02, 1, 4])

    def __call__(self) -> None:
        setting, random = self._setting, self._setting.random
        setting.sleep_up_to(self._delay)
        if self._never:
            return
        self._deliver(self._filter, self.name)
        while random.random() < 0.3:
            setting.sleep_up_to(2)
            other = random.random() < 0.2
            if other:
                self._deliver(setting.model.filter(statistics=False), self.name)
            else:
                self._deliver(self._filter, self.name)
