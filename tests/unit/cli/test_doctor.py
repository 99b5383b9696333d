"""The command ``splitlib doctor``: output, exit codes, options."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from splitlib.cli import main
from splitlib.errors import ConfigError
from tests.unit.cli.command_line import SOURCES


def test_every_finding_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path), "--json"]) in (0, 1)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {finding["status"] for finding in found} <= {"good", "note", "problem"}
    assert all(finding["text"] for finding in found)
    assert all(finding["advice"] for finding in found if finding["status"] == "problem")
    checks = [finding["check"] for finding in found]
    assert [
        name for name in checks if not name.startswith(("extra", "worker", "java", "path"))
    ] == [
        "python",
        "pyspark",
        "packages",
        "settings",
        "catalogs",
        "storage",
        "clock",
    ]


@pytest.mark.parametrize("command", ["doctor", "config", "tables"])
def test_commands_do_not_import_pyspark(command: str) -> None:
    code = (
        "import sys; from splitlib.cli import main; "
        f"main([{command!r}]); assert 'pyspark' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == 0


def test_a_problem_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", f"{tmp_path}/none"]) == 1
    (line,) = (text for text in capsys.readouterr().out.splitlines() if " storage " in text)
    assert line.startswith("problem  storage ")
    assert " -> " in line


def test_an_option_of_something_else_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-o", "format=orc"]) == 2
    assert "-o storage_options.KEY=VALUE" in capsys.readouterr().err


def test_spark_settings_need_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--conf", "spark.x=y"]) == 2
    assert "Hint: add --spark" in capsys.readouterr().err


def test_a_session_that_cannot_be_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def spark_session(_: str, conf: dict[str, str]) -> Iterator[str]:
        if conf == {"spark.x": "y"}:
            raise ConfigError("No Spark session can be started: no space left")
        yield ""

    monkeypatch.setattr("splitlib.cli.setup.spark_session", spark_session)
    assert main(["doctor", "--spark", "--conf", "spark.x=y"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if " session  " in line)
    assert "no space left -> fix the problems above" in line
    assert any(line.startswith("good     settings") for line in lines)
