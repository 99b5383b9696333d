"""``splitlib audit``: find out which joins can prune, and what would fix the others."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from splitlib.cli.arguments import dump, output_options, pairs
from splitlib.errors import ConfigError, ConnectorNotInstalled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from splitlib.spark.audit import Audit

# A comment, a quoted text or name, a semicolon, or other characters.
_TOKEN: Final = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|;|[^;'\"`/-]+|.", re.DOTALL
)
_CONF: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def add_audit(commands: Any) -> None:
    """Add the command ``audit`` to the parser."""
    parser = commands.add_parser(
        "audit",
        parents=[output_options()],
        help="show which joins of queries can be pruned, and what would fix the others",
        description="Starts a Spark session and audits each query of the files in it. The queries "
        "do not run; only dimensions are read, for their keys. Prints the joins of each query; "
        "with --json, one object. Exits with 1 if a query cannot be audited, or if joins prune a "
        "smaller share of the tables than --fail-under.",
    )
    parser.add_argument(
        "file",
        nargs="+",
        metavar="QUERY.sql",
        help="a file with queries, separated by semicolons; - is standard input",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the Spark session; repeatable",
    )
    parser.add_argument(
        "--files",
        action="store_true",
        help="list the files of the partitions that joins need, for exact numbers of bytes",
    )
    parser.add_argument("--html", action="store_true", help="write HTML")
    parser.add_argument(
        "--fail-under",
        type=float,
        default=100.0,
        metavar="PERCENT",
        help="share of the tables that joins must prune; the default is 100",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.json and args.html:
        raise ConfigError("--json and --html contradict each other.")
    queries = dict(_queries(args.file))
    found = audited(queries, pairs("conf", args.conf), files=args.files)
    if args.json:
        print(dump(found.to_dict()))
    else:
        print(found.to_html() if args.html else found)
    failed = any(query.is_error for query in found.queries)
    return int(failed or found.pruned_percent < args.fail_under)


def _queries(files: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each query in SQL files."""
    for file in files:
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ConfigError(f"{file} cannot be read: {reason}.") from error
        found = list(statements(text))
        if not found:
            raise ConfigError(f"{file} has no query.")
        for number, query in enumerate(found, 1):
            yield (f"{file}#{number}" if len(found) > 1 else file), query


def statements(text: str) -> Iterator[str]:
    """Yield the statements in an SQL text, without the semicolons between them.

    Semicolons in comments, in quoted texts and in quoted names do not end a statement.
    """
    parts: list[str] = []
    for token in [*_TOKEN.findall(text), ";"]:
        if token != ";":
            parts.append(token)
            continue
        statement = "".join(parts).strip()
        if any(part.strip() and not part.startswith(("--", "/*")) for part in parts):
            yield statement
        parts = []


def audited(queries: Mapping[str, str], conf: Mapping[str, str], *, files: bool) -> Audit:
    """Start a Spark session and audit queries in it. List the tables' files only if ``files``.

    Raises:
        SplitlibError: see :func:`spark_session`.
    """
    with spark_session("splitlib audit", conf) as spark:
        from splitlib.spark.audit import audit

        return audit(spark, queries, files=files)


@contextmanager
def spark_session(command: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Run the block with a new Spark session that has the settings ``conf``, and then stop it.

    Raises:
        ConnectorNotInstalled: if PySpark is not installed.
        ConfigError: if the session cannot be started.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise ConnectorNotInstalled(
            f"{command} needs PySpark.", hint="pip install 'splitlib[spark]'"
        ) from error
    builder = SparkSession.builder.appName(command)
    for name, value in {**_CONF, **conf}.items():
        builder = builder.config(name, value)
    print("starting a Spark session", file=sys.stderr)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # Spark raises errors of many classes here.
        message = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"No Spark session can be started: {message}", hint="run: splitlib doctor"
        ) from error
    try:
        yield spark
    finally:
        spark.stop()
