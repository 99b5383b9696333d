"""``splitlib new-connector`` writes a package that passes the kit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from splitlib import ConfigError
from splitlib.cli import main
from splitlib.cli.setup import write_package

ROOT = Path(__file__).parents[2]
# Other connectors run the slow property tests and the many cases of string keys.
CHOSEN = "not no_match_is_lost and not string"


def run(*command, cwd, path=()):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([*path])}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_package_passes_the_kit(tmp_path, capsys):
    directory = tmp_path / "new"
    assert main(["new-connector", "sea_lake", "--directory", str(directory)]) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(written) == sorted(path for path in directory.rglob("*") if path.is_file())
    assert not re.search(r"\$[a-z{]", "".join(path.read_text() for path in written))
    connector = (directory / "splitlib_sea_lake/connector.py").read_text()
    code = [line for line in connector.splitlines() if line and not line.strip().startswith('"""')]
    assert len(code) <= 60
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    entry = {"sea_lake": "splitlib_sea_lake:SeaLakeConnector"}
    assert project["entry-points"]["splitlib.connectors"] == entry
    out = run(
        *(sys.executable, "-m", "pytest", "-q", "-rs", "-W", "error", "-p", "no:cacheprovider"),
        *("-k", CHOSEN),
        cwd=directory,
        path=sys.path,
    )
    assert re.search(r"\d{2,} passed", out), out
    assert "failed" not in out


@pytest.mark.long
def test_the_package_installs_into_a_fresh_environment(tmp_path):
    directory = tmp_path / "new"
    write_package("sea_lake", directory)
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"), cwd=tmp_path)
    python = str(tmp_path / "venv/bin/python")
    pins = [f"{name}=={version(name)}" for name in ("pyarrow", "numpy", "fsspec", "pytest")]
    kit = f"splitlib[conformance] @ {ROOT.as_uri()}"
    run(python, "-m", "pip", "install", "-q", kit, *pins, ".[test]", cwd=directory)
    names = "import splitlib; print('sea_lake' in splitlib.connector_names())"
    assert run(python, "-c", names, cwd=tmp_path) == "True\n"
    assert " passed" in run(python, "-m", "pytest", "-q", "-k", CHOSEN, cwd=directory)
    run(str(tmp_path / "venv/bin/splitlib"), "new-connector", "other", cwd=tmp_path)
    assert (tmp_path / "splitlib-other/splitlib_other/connector.py").exists()


@pytest.mark.parametrize("name", ["Lake", "1lake", "a-b", "a__b", "", "files", "hive"])
def test_names_that_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match=r"not a name|already"):
        write_package(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ConfigError, match="not an empty directory"):
        write_package("lake", tmp_path)
