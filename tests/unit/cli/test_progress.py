"""The progress line of the command line."""

import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from splitlib.cli import main
from splitlib.cli.arguments import for_command
from splitlib.config import SplitConfig
from splitlib.telemetry import Progress, on_terminal, progress_of


class Clock:
    """A replacement for the waits of the progress thread. The test decides when each wait ends."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.ended = False
        self._waiting = threading.Semaphore(0)
        self._go_on = threading.Semaphore(0)

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        self._waiting.release()
        self._go_on.acquire()
        return self.ended

    def until_it_waits(self) -> None:
        self._waiting.acquire()

    def pass_by(self) -> None:
        """End one wait, and return when the next wait has begun."""
        self._go_on.release()
        self.until_it_waits()

    def end(self) -> None:
        self.ended = True
        self._go_on.release()


def test_progress_is_shown_after_a_second_and_erased(capsys: pytest.CaptureFixture[str]) -> None:
    terminal, clock = io.StringIO(), Clock()
    show = on_terminal(terminal)
    with Progress(lambda: "3 of 4", show, wait=clock.wait) as progress:
        progress.print("early")
        clock.until_it_waits()
        assert terminal.getvalue() == ""
        clock.pass_by()
        assert terminal.getvalue() == "\r\x1b[K3 of 4"
        clock.pass_by()
        progress.print("late")
        assert terminal.getvalue().endswith("3 of 4\r\x1b[K")
        clock.pass_by()
        clock.end()
    assert terminal.getvalue().endswith("3 of 4\r\x1b[K")
    assert clock.pauses == [1.0, 0.2, 0.2, 0.2]
    assert capsys.readouterr().out == "early\nlate\n"


def test_progress_that_is_off_is_silent() -> None:
    terminal = io.StringIO()
    show = on_terminal(terminal)
    # While one progress is shown, another one never starts to wait.
    with (
        Progress(lambda: "3 of 4", show, wait=lambda _: True),
        Progress(lambda: "1 of 2", show, wait=lambda _: False),
    ):
        pass
    assert terminal.getvalue() == ""


def is_shown() -> bool:
    """Return whether a progress line is shown, because no other one is."""
    shown, clock = list[str](), Clock()
    with Progress(lambda: "3 of 4", shown.append, wait=clock.wait):
        clock.end()
    return bool(clock.pauses)


@pytest.mark.parametrize("error", [OSError("Input/output error"), ValueError("I/O on closed")])
def test_a_terminal_that_is_gone(error: Exception) -> None:
    clock, shown = Clock(), list[str]()

    def show(text: str) -> None:
        shown.append(text)
        raise error

    with Progress(lambda: "3 of 4", show, wait=clock.wait):
        clock.until_it_waits()
        clock.pass_by()
        clock.end()
    assert shown == ["3 of 4", ""]
    assert is_shown()


def test_progress_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    terminal = io.StringIO()
    with Progress(lambda: "3 of 4", on_terminal(terminal)):
        pass
    assert terminal.getvalue() == ""
    monkeypatch.undo()
    assert is_shown()


class Kernel:
    """Stands for IPython in a kernel: notes what a cell shows."""

    kernel = "kernel"

    def __init__(self) -> None:
        self.shown: list[str] = []

    def get_ipython(self) -> "Kernel":
        return self

    def display(self, data: dict[str, str], **_: object) -> "Kernel":
        self.shown.append(data["text/plain"])
        return self

    update = display


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("place", ["terminal", "notebook", "file"])
def test_progress_of_a_call(monkeypatch: pytest.MonkeyPatch, place: str, enabled: bool) -> None:
    stream = Terminal() if place == "terminal" else io.StringIO()
    kernel = Kernel()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setitem(sys.modules, "IPython", kernel if place == "notebook" else None)
    monkeypatch.setitem(sys.modules, "IPython.display", kernel)
    described = threading.Event()

    def describe() -> str:
        described.set()
        return "1 of 2"

    monkeypatch.setattr("splitlib.telemetry.WAIT_SECONDS", 0.0)
    with progress_of(describe, enabled=enabled):
        assert not enabled or place == "file" or described.wait(60)
    if not enabled:
        assert (stream.getvalue(), kernel.shown) == ("", [])
    elif place == "notebook":
        assert (stream.getvalue(), kernel.shown[0], kernel.shown[-1]) == ("", "1 of 2", "")
    else:
        lines = "\r\x1b[K1 of 2" if place == "terminal" else ""
        assert stream.getvalue().startswith(lines)
        assert stream.getvalue().endswith("\r\x1b[K" if lines else "")
        assert kernel.shown == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stderr", "stdout", "json", "shown"),
    [
        (Terminal, Terminal, False, True),
        (Terminal, Terminal, True, True),
        (Terminal, io.StringIO, False, True),
        (Terminal, io.StringIO, True, False),
        (io.StringIO, Terminal, False, False),
    ],
)
def test_progress_is_for_a_terminal_and_not_beside_json_for_a_pipe(
    monkeypatch: pytest.MonkeyPatch, stderr: type, stdout: type, json: bool, shown: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stderr())
    monkeypatch.setattr(sys, "stdout", stdout())
    progress = for_command(str, SplitConfig(), json=json)
    assert progress.is_enabled == shown
    assert not for_command(str, SplitConfig(show_progress=False), json=json).is_enabled


@pytest.mark.parametrize("command", ["plan", "partitions"])
def test_commands_describe_their_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: Path, command: str
) -> None:
    described: list[str] = []

    def note_at_the_end(
        describe: Callable[[], str], config: SplitConfig, *, json: bool
    ) -> Progress:
        def wait(seconds: float) -> bool:
            described.append(describe())
            return True

        return Progress(describe, on_terminal(sys.stderr), wait=wait)

    monkeypatch.setattr("splitlib.cli.plan.for_command", note_at_the_end)
    assert main([command, str(table), "-c", "files"]) == 0
    assert "partitions" in described[0]
    assert "partitions" not in capsys.readouterr().err
