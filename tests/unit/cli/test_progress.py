"""The line that shows progress."""

import io
import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from splitlib.cli.progress import Progress
from tests.unit.cli.command_line import MANY_SPLITS, start


def test_progress_is_shown_after_a_second_and_erased(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = io.StringIO()
    with Progress(lambda: "3 of 4", terminal, enabled=True) as progress:
        progress.print("early")
        time.sleep(0.3)
        assert terminal.getvalue() == ""
        time.sleep(1.2)
        assert terminal.getvalue().startswith("\r\x1b[K3 of 4")
        progress.print("late")
        assert terminal.getvalue().endswith("3 of 4\r\x1b[K")
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert capsys.readouterr().out == "early\nlate\n"


def test_progress_that_is_not_wanted_is_silent() -> None:
    terminal = io.StringIO()
    with Progress(lambda: "3 of 4", terminal, enabled=False):
        time.sleep(1.2)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("arguments", "shown"), [([], True), (["--json"], False)])
def test_progress_is_for_a_terminal_and_not_beside_json_for_a_pipe(
    table: Path, arguments: list[str], shown: bool
) -> None:
    ours, theirs = pty.openpty()
    process = start("plan", table, *MANY_SPLITS, *arguments, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    time.sleep(2.5)  # nobody reads its output, so it takes longer than a second
    process.stdout.read()
    process.stdout.close()
    assert process.wait() == 0
    try:
        seen = os.read(ours, 1 << 16).decode()
    except OSError:  # how Linux says that nothing was written before the other end closed
        seen = ""
    os.close(ours)
    assert ("partitions" in seen) == shown
