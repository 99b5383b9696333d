"""``splitlib doctor``: check what splitlib needs on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from splitlib.cli import output
from splitlib.cli.arguments import nested, output_options, pairs, setting_options
from splitlib.doctor.machine import PROBLEM, Finding
from splitlib.errors import ConfigError


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
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
    parser.add_argument(
        "-o",
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="storage_options.key=value, for the locations; repeatable",
    )
    parser.add_argument(
        "--spark",
        action="store_true",
        help="start a Spark session, and check in it which path splitlib takes",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    failed = False
    for finding in _findings(args):
        print(output.dump(finding.to_dict()) if args.json else finding, flush=True)
        failed = failed or finding.status == PROBLEM
    return int(failed)


def _findings(args: argparse.Namespace) -> Iterator[Finding]:
    # Imported here, because other commands do not need them.
    from splitlib.doctor.machine import (
        Machine,
        machine_findings,
        own_requirements,
        package_findings,
    )
    from splitlib.doctor.sources import path_findings, session_findings, source_findings

    options = nested(pairs("option", args.option))
    storage = options.pop("storage_options", {})
    if options:
        raise ConfigError(
            f"Option {', '.join(sorted(options))} is not an option of a storage.",
            hint="write -o storage_options.KEY=VALUE.",
        )
    machine = Machine()
    yield from machine_findings(machine)
    yield from package_findings(own_requirements())
    arguments = pairs("set", args.set)
    yield from source_findings(arguments, dict.fromkeys(args.location, storage))
    if not args.spark:
        yield from path_findings(machine)
    elif machine.pysparks:
        print("starting a Spark session", file=sys.stderr)
        yield from session_findings()
