"""splitlib closes the tables that it opened, even after an error, but not the user's tables."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import ClassVar

import pytest

import splitlib
from splitlib import SplitConfig
from splitlib.cli import main
from tests.support.coordinators import coordinator_of
from tests.support.memory_connector import MemoryConnector

COMMANDS = ["plan", "explain", "partitions", "partitions --files"]


class Opened(MemoryConnector):
    """A connector that records when tables are opened and closed."""

    made: ClassVar[list[Opened]]

    def __init__(self, **more) -> None:
        super().__init__(**more)
        self.closed = 0

    @classmethod
    def open(cls, name, options):
        cls.made.append(cls())
        return cls.made[-1]

    def close(self) -> None:
        self.closed += 1

    @classmethod
    def closes(cls) -> list[int]:
        """Return how often each table was closed, for tables opened since the previous call."""
        made, cls.made = cls.made, []
        return [one.closed for one in made]


@pytest.fixture
def opened() -> type[Opened]:
    class Mine(Opened):
        made: ClassVar[list[Opened]] = []

    splitlib.register("opened", Mine)
    return Mine


def failing(error: BaseException | type[BaseException]):
    def fail(self, *_):
        raise error

    return fail


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command(opened, command, capsys):
    arguments = [*command.split(), "t", "-c", "opened"]
    assert main(arguments) == 0
    assert opened.closes() == [1]
    assert main([*arguments, "--filter", "nonsense"]) == 2
    assert opened.closes() == [1]
    opened.list_partitions = failing(splitlib.SourceError("gone"))
    assert main(arguments) == 2
    assert opened.closes() == [1]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError])
def test_a_command_that_is_stopped(opened, command, error, monkeypatch, capfd):
    monkeypatch.setattr("os.dup2", lambda *_: None)  # pytest owns the output
    # Each call must raise a new error. Threads keep the print function that existed when they
    # began. So a single error, with its traceback and the tables in it, would stay alive.
    monkeypatch.setattr("builtins.print", failing(error))
    assert main([*command.split(), "t", "-c", "opened"]) > 128
    assert opened.closes() == [1]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_table_that_cannot_be_described(opened, error):
    opened.describe = failing(error("no"))
    with pytest.raises((splitlib.SourceError, KeyboardInterrupt)):
        splitlib.load_table("t", "opened")
    assert opened.closes() == [1]


def test_a_table_that_nobody_waits_for_any_more():
    let_go, closed = threading.Event(), threading.Event()

    class Late(Opened):
        made: ClassVar[list[Opened]] = []

        @classmethod
        def open(cls, name, options):
            assert let_go.wait(60)
            return super().open(name, options)

        def close(self):
            super().close()
            closed.set()

    splitlib.register("late", Late)
    with pytest.raises(splitlib.SourceUnavailable):
        splitlib.load_table("t", "late", config=SplitConfig(call_deadline_seconds=0.1))
    let_go.set()
    assert closed.wait(10)
    assert Late.closes() == [1]


def test_a_table_of_the_users_stays_open(opened):
    table = splitlib.load_table("t", "opened")
    splitlib.paths(table)
    list(splitlib.DynamicFileEnumerator(table).enumerate_splits())
    with coordinator_of(table.connector) as coordinator:
        coordinator.register_reader("r")
        coordinator.handle_split_request("r")
    table.close()
    assert opened.closes() == [1]


def test_no_table_is_opened_anywhere_else():
    """Only these modules open tables. For each of them, a test checks that it closes its tables."""
    source = Path(splitlib.__file__).parent
    opening = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if "open_table(" in path.read_text("utf-8")
    }
    assert opening == {
        "cli/arguments.py",
        "registry.py",
        "spark/datasource/plan.py",
        "spark/named_tables.py",
        "spark/read/reader.py",
    }
