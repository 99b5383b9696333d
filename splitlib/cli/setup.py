"""Commands that need no table: ``splitlib config``, ``doctor``, ``new-connector`` and ``demo``."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from splitlib._version import __version__
from splitlib.cli.arguments import (
    conf_option,
    dump,
    nested,
    output_options,
    pairs,
    plain,
    repeatable,
    setting_options,
)
from splitlib.config import SplitConfig, resolve_settings
from splitlib.demo import QUERY, DemoData, Run, Steps, generate, report, run_all, session, wrong
from splitlib.diagnosis.machine import PROBLEM
from splitlib.diagnosis.session import spark_session
from splitlib.errors import ConfigError, ConnectorNotInstalled, SplitlibError
from splitlib.redaction import redact
from splitlib.registry import connector_names
from splitlib.testing import HiveMetastore


def add_config(commands: Any) -> None:
    """Add the command ``config`` to the parser."""
    parser = commands.add_parser(
        "config",
        parents=[setting_options(), output_options()],
        help="show every setting with its value and source",
        description="Prints settings from the environment (SPLITLIB_NAME) and --set; with --json, "
        "one object per line.",
    )
    parser.set_defaults(run=_run_config)


def _run_config(args: argparse.Namespace) -> int:
    given = pairs("set", args.set)
    SplitConfig.resolve(given)  # Checks ranges, which resolve_settings does not.
    resolved = resolve_settings(given)
    width = max(len(setting.name) for setting in resolved)
    for setting in resolved:
        if args.json:
            value = _redacted(setting.value)
            print(dump(plain({**setting._asdict(), "value": value})))
        else:
            print(redact(f"{setting.name:<{width}}  {setting.value}  ({setting.source})"))
            print(f"{'':<{width}}  {setting.doc}")
    return 0


def _redacted(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_redacted, value))
    return redact(value) if isinstance(value, str) else value


def add_doctor(commands: Any) -> None:
    """Add the command ``doctor`` to the parser."""
    parser = commands.add_parser(
        "doctor",
        parents=[setting_options(), output_options()],
        help="check Java, PySpark, packages, catalogs, credentials and the clock",
        description="Prints one line per check: good, a note on something optional, or a problem "
        "with what to do; with --json, one object per line. Exits with 1 if there is a problem.",
    )
    parser.add_argument(
        "location", nargs="*", metavar="LOCATION", help="a directory to list, as a path or URI"
    )
    storage = "storage_options.key=value, for the locations"
    repeatable(parser, "--option", "KEY=VALUE", storage, short="-o")
    parser.add_argument(
        "--spark",
        action="store_true",
        help="start a Spark session, and check its catalogs and how splitlib reads files in it",
    )
    conf_option(parser)
    parser.set_defaults(run=_run_doctor)


def _run_doctor(args: argparse.Namespace) -> int:
    from splitlib.diagnosis.doctor import findings  # Other commands do not need it.

    options = nested(pairs("option", args.option))
    storage = options.pop("storage_options", {})
    if options:
        raise ConfigError(
            f"Option {', '.join(sorted(options))} is not an option of a storage.",
            hint="write -o storage_options.KEY=VALUE.",
        )
    conf = pairs("conf", args.conf)
    if conf and not args.spark:
        raise ConfigError("--conf needs a Spark session.", hint="add --spark to start one.")
    failed = False
    with ExitStack() as stack:
        start = partial(stack.enter_context, spark_session("splitlib doctor", conf))
        locations = dict.fromkeys(args.location, storage)
        arguments = pairs("set", args.set)
        for finding in findings(arguments, locations, start if args.spark else None):
            print(dump(finding.to_dict()) if args.json else finding, flush=True)
            failed = failed or finding.status == PROBLEM
    return int(failed)


_NAME = re.compile("[a-z][a-z0-9]*(_[a-z0-9]+)*")


def add_new_connector(commands: Any) -> None:
    """Add the command ``new-connector`` to the parser."""
    parser = commands.add_parser(
        "new-connector",
        parents=[output_options()],
        help="write a package with a working connector, to start from",
        description="Writes a Python package with a small connector, its tests with the kit, and "
        "an entry point. Prints the paths of the files.",
    )
    parser.add_argument("name", metavar="NAME", help="name of the connector, such as lake2")
    parser.add_argument("--directory", metavar="DIR", help="default: splitlib-NAME")
    parser.set_defaults(run=_run_new_connector)


def _run_new_connector(args: argparse.Namespace) -> int:
    directory = Path(args.directory or f"splitlib-{args.name.replace('_', '-')}")
    paths = [str(path) for path in write_package(args.name, directory)]
    print(dump({"files": paths}) if args.json else "\n".join(paths))
    return 0


def write_package(name: str, directory: Path) -> list[Path]:
    """Create the Python package for a new connector, and return the paths of its files.

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


_PACKAGES = ("pyspark", "hmsclient", "duckdb", "duckdb_extension_tpcds")

# Smallest scale factor with which DuckDB's TPC-DS generator terminates.
_SMALLEST_SCALE = 0.01


def add_demo(commands: Any) -> None:
    """Add the command ``demo`` to the parser."""
    parser = commands.add_parser(
        "demo",
        parents=[output_options()],
        help="run a TPC-DS query with Spark, with and without its pruning, and splitlib",
        description="Generates TPC-DS data, registers it in a local Hive metastore, and measures a "
        "join with the days after holidays. Needs Java; downloads nothing. With --json, prints "
        "one object. Exits with 1 if a result is wrong.",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=0.1,
        metavar="FACTOR",
        help="TPC-DS scale factor; 0.1 or more has sales on nearly every day of five years",
    )
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where to create the data")
    parser.add_argument("--keep", action="store_true", help="do not remove the data afterwards")
    parser.set_defaults(run=_run_demo)


def _run_demo(args: argparse.Namespace) -> int:
    if not args.scale >= _SMALLEST_SCALE:
        raise ConfigError(f"--scale must be at least {_SMALLEST_SCALE}, not {args.scale}.")
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise ConnectorNotInstalled(
                f"The demo needs the package {package}.", hint="pip install 'splitlib[demo]'"
            )
    if args.directory is not None:
        args.directory.mkdir(parents=True, exist_ok=True)
    # Always create a new directory, which can be removed safely.
    directory = Path(tempfile.mkdtemp(prefix="splitlib-demo-", dir=args.directory)).absolute()
    try:
        return _demo(args, directory)
    finally:
        if args.keep:
            print(f"The data is in {directory}.", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _demo(args: argparse.Namespace, directory: Path) -> int:
    steps = Steps()
    with ExitStack() as stack:
        with steps.step("starting a Hive metastore"):
            metastore = _started(directory / "metastore")
            stack.callback(metastore.stop)
        with steps.step(f"generating TPC-DS at scale {args.scale:g}"):
            data = generate(directory, args.scale)
        spark = stack.enter_context(session(metastore, data, directory, steps))
        runs = run_all(spark, metastore.uri, steps)
    if args.json:
        print(dump(_plain(args, data, runs, steps)))
    else:
        print(report(data, runs))
    return 1 if wrong(data, runs) else 0


def _started(directory: Path) -> HiveMetastore:
    metastore = HiveMetastore(directory)
    try:
        metastore.start()
    except RuntimeError as error:  # The message names what is missing, such as Java.
        raise SplitlibError(f"The demo could not start a metastore: {error}") from error
    return metastore


def _plain(
    args: argparse.Namespace, data: DemoData, runs: list[Run], steps: Steps
) -> dict[str, Any]:
    return {
        "scale": args.scale,
        "query": QUERY,
        "partitions": len(data.keys),
        "expected": {"count": data.expected_count, "partitions": sorted(data.expected_keys)},
        "runs": [asdict(run) for run in runs],
        "steps": steps.seconds,
    }
