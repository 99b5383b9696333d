"""``splitlib new-connector``: write a package with a working connector, to start from."""

from __future__ import annotations

import argparse
import re
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from splitlib._version import __version__
from splitlib.cli import output
from splitlib.cli.arguments import output_options
from splitlib.errors import ConfigError
from splitlib.registry import connector_names

_NAME = re.compile("[a-z][a-z0-9]*(_[a-z0-9]+)*")


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "new-connector",
        parents=[output_options()],
        help="write a package with a working connector, to start from",
        description="Writes a Python package with a small connector, its tests with the kit, and "
        "an entry point. Prints the paths of the files.",
    )
    parser.add_argument("name", metavar="NAME", help="name of the connector, such as lake2")
    parser.add_argument("--directory", metavar="DIR", help="default: splitlib-NAME")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    directory = Path(args.directory or f"splitlib-{args.name.replace('_', '-')}")
    paths = [str(path) for path in write_package(args.name, directory)]
    print(output.dump({"files": paths}) if args.json else "\n".join(paths))
    return 0


def write_package(name: str, directory: Path) -> list[Path]:
    """Write the package of a new connector, and return the paths of its files.

    Args:
        name: Name of the connector.
        directory: Directory of the package; it must be empty or missing.

    Raises:
        ConfigError: if the name is invalid or taken, or the directory is not empty.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name for a connector.",
            hint="use small letters, digits and single underscores.",
        )
    if name in connector_names():
        raise ConfigError(f"There is a connector {name!r} already.", hint="choose another name.")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigError(
            f"{str(directory)!r} is not an empty directory.", hint="pass another --directory."
        )
    values = {
        "name": name,
        "dashed": name.replace("_", "-"),
        "class_name": "".join(map(str.capitalize, name.split("_"))) + "Connector",
        "version": __version__,
    }
    package = f"splitlib_{name}"
    templates = resources.files("splitlib.cli") / "templates"
    written = []
    for template, target in {
        "README.md.txt": "README.md",
        "pyproject.toml.txt": "pyproject.toml",
        "init.py.txt": f"{package}/__init__.py",
        "connector.py.txt": f"{package}/connector.py",
        "test_conformance.py.txt": "tests/test_conformance.py",
    }.items():
        text = Template((templates / template).read_text("utf-8")).substitute(values)
        path = directory / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        written.append(path)
    return written
