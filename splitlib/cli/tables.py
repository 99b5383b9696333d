"""Commands for whole tables and workloads.

``tables`` lists tables, ``analyze`` stores column bounds of files, and ``audit`` finds the joins in
queries that can prune.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from splitlib.cli.arguments import (
    catalog_of,
    conf_option,
    config_of,
    dump,
    filters_of,
    for_command,
    is_directory,
    output_options,
    pairs,
    repeatable,
    session_of,
    table_of,
)
from splitlib.cli.filters import STDIN, open_stdin
from splitlib.cli.plan import options
from splitlib.config import SplitConfig
from splitlib.diagnosis.session import spark_session
from splitlib.enumeration.analyze import Analysis, analyze_table
from splitlib.errors import (
    ConfigError,
    MissingPartition,
    SplitlibError,
    TableNotFound,
    did_you_mean,
    error_context,
)
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import PartitionFilter
from splitlib.redaction import redact, remember
from splitlib.registry import SESSION, connector_class, named_catalogs
from splitlib.remote.calls import BoundedCalls
from splitlib.spi import SupportsTableNames
from splitlib.storage import Level, Storage, only_within

if TYPE_CHECKING:
    from splitlib.spark.audit import Audit

# Matches an SQL comment, a quoted text or name, a semicolon, or other characters.
_TOKEN: Final = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|;|[^;'\"`/-]+|.", re.DOTALL
)

_DELTA: Final = "delta"
_OF_DIRECTORIES: Final = ("files", _DELTA)
_MOST_LEVELS: Final = 3
"""Number of levels below a directory that are searched for Delta tables."""


T = TypeVar("T")


class _Table(NamedTuple):
    """A listed table. Other commands open the table by :attr:`name`."""

    name: str
    database: str
    table: str
    catalog: str | None = None


def add_tables(commands: Any) -> None:
    """Add the command ``tables`` to the parser."""
    parser = commands.add_parser(
        "tables",
        parents=[output_options()],
        help="list the tables of a catalog or a directory",
        description="Prints one line per table, with the name that other commands take; with "
        "--json, one object per line. Without arguments, lists all named catalogs.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="CATALOG or CATALOG.DATABASE of a named catalog; a directory whose sub-directories "
        "are tables; or, with --uri or -c, a database",
    )
    parser.add_argument(
        "-c",
        "--connector",
        metavar="NAME",
        help="hive, iceberg, ...; session: the catalog of a Spark session; delta: Delta tables "
        "in a directory, up to three levels below it",
    )
    parser.add_argument(
        "--uri",
        help="URI of the catalog, such as thrift://host:9083; the default connector is hive",
    )
    repeatable(parser, "--option", "KEY=VALUE", "an option of the connector", short="-o")
    conf_option(parser)
    parser.set_defaults(run=_run_tables)


def _run_tables(args: argparse.Namespace) -> int:
    config = SplitConfig.resolve()
    with (
        ExitStack() as stack,
        for_command(lambda: "listing the tables", config, json=args.json) as out,
    ):
        for found in _tables(args, stack):
            row = {"database": found.database, "table": found.table}
            if found.catalog is not None:
                row["catalog"] = found.catalog
            out.print(dump(row) if args.json else found.name)
    return 0


def _tables(args: argparse.Namespace, stack: ExitStack) -> Iterator[_Table]:
    connector, options = catalog_of(args)
    if connector in _OF_DIRECTORIES or (
        connector is None and args.name and is_directory(args.name)
    ):
        yield from _below(args.name or ".", connector, options)
    elif connector is not None:
        if connector == SESSION:
            options["spark"] = stack.enter_context(session_of(args))
        for database, table in _names(connector, args.name, options):
            yield _Table(f"{database}.{table}", database, table)
    else:
        yield from _of_catalogs(args.name)


def _of_catalogs(name: str | None) -> Iterator[_Table]:
    catalogs = named_catalogs({})
    catalog, _, database = (name or "").partition(".")
    if name and catalog not in catalogs:
        near = did_you_mean(catalog, catalogs, otherwise="the catalogs are") if catalogs else ""
        raise ConfigError(
            f"There is no catalog {catalog!r}.",
            hint=f"{near or 'no catalog is named.'} Write --uri thrift://host:9083 for a Hive "
            "metastore, or -c NAME.",
        )
    if not catalogs:
        raise ConfigError(
            "No catalog is named in the environment or in a file.",
            hint="write --uri thrift://host:9083 for a Hive metastore, -c NAME for another "
            "connector, or the path of a directory.",
        )
    if name:
        yield from _of_catalog(catalog, catalogs[catalog], database or None)
        return
    failed = []
    for each in sorted(catalogs):
        try:
            yield from _of_catalog(each, catalogs[each], None)
        except SplitlibError as error:
            failed.append(each)
            print(f"error: catalog {each}: {redact(str(error))}", file=sys.stderr)
    if failed:
        raise ConfigError(f"These catalogs could not be listed: {', '.join(failed)}.")


def _of_catalog(name: str, options: Mapping[str, Any], database: str | None) -> Iterator[_Table]:
    options = dict(options)
    connector = options.pop("connector", None)
    if connector is None:
        raise ConfigError(
            f"Catalog {name!r} does not define a connector.",
            hint=f"set SPLITLIB_CATALOG__{name.upper()}__CONNECTOR.",
        )
    for space, table in _names(str(connector), database, options):
        yield _Table(f"{name}.{space}.{table}", space, table, name)


def _names(
    connector: str, database: str | None, options: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    remember(database or "", options)
    catalog: Any = connector_class(connector)
    if not isinstance(catalog, SupportsTableNames):
        raise ConfigError(
            f"The connector {connector!r} cannot list tables.",
            hint="to list the partitions of one table: splitlib partitions TABLE -c " + connector,
        )
    allowed = SplitConfig.resolve().allowed_locations
    with error_context(connector=connector, table=database), only_within(allowed):
        yield from _within_deadline(catalog.table_names(database, options))


def _within_deadline(found: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator, each within the deadline of one call."""
    with BoundedCalls(SplitConfig.resolve(), Future()) as calls:
        while (item := calls.run(lambda: next(found, None))) is not None:
            yield item


def _below(directory: str, connector: str | None, options: Mapping[str, Any]) -> Iterator[_Table]:
    """Yield a directory's subdirectories as tables, or the directory itself if it is a table.

    With the connector ``delta``, only directories with a Delta log are tables. Such directories are
    searched down to three levels below the directory, but not inside directories with data.
    """
    root = directory.rstrip("/") or "/"
    remember(root, options)
    storage = Storage(options.get("storage_options"))
    allowed = SplitConfig.resolve().allowed_locations
    with error_context(connector=connector or "files", table=root), only_within(allowed):
        yield from _within_deadline(_tables_in(root, connector, storage))


def _tables_in(root: str, connector: str | None, storage: Storage) -> Iterator[_Table]:
    try:
        level = storage.level(root, retries=True)
    except MissingPartition as error:
        raise TableNotFound(f"There is no directory {root!r}.") from error
    if connector == _DELTA:
        yield from _delta_tables(storage, root, level)
    elif _has_data(level):
        yield _table_at(root)
    else:
        yield from (_table_at(f"{root.rstrip('/')}/{name}") for name in level.directories)


def _delta_tables(
    storage: Storage, location: str, level: Level, depth: int = 0
) -> Iterator[_Table]:
    if "_delta_log" in level.hidden:
        yield _table_at(location)
    elif depth < _MOST_LEVELS and not _has_data(level):
        for name in level.directories:
            below = f"{location.rstrip('/')}/{name}"
            yield from _delta_tables(storage, below, storage.level(below, retries=True), depth + 1)


def _has_data(level: Level) -> bool:
    return bool(level.files) or any("=" in name for name in level.directories)


def _table_at(location: str) -> _Table:
    above, _, own = location.rpartition("/")
    return _Table(redact(location), redact(above), own)


def add_analyze(commands: Any) -> None:
    """Add the command ``analyze`` to the parser."""
    parser = commands.add_parser(
        "analyze",
        parents=options(),
        help="read the footers of all Parquet files, and save their statistics",
        description="Saves least and greatest values of columns in statistics_location. Without "
        "this setting, nothing is kept. Filters select partitions. Exits with 1 if the statistics "
        "cannot be saved.",
    )
    parser.add_argument(
        "--columns", metavar="NAME,NAME", help="columns; by default all with usable statistics"
    )
    parser.add_argument(
        "--where",
        metavar="SQL",
        help="a condition on partition columns, such as \"day > '2024-01-05'\"; it is evaluated in "
        "a Spark session",
    )
    parser.set_defaults(run=_run_analyze)


def _run_analyze(args: argparse.Namespace) -> int:
    config, so_far = config_of(args), [Analysis(())]
    names = None if args.columns is None else [n.strip() for n in args.columns.split(",")]
    with ExitStack() as stack:
        if args.where is not None:
            spark = stack.enter_context(session_of(args))
        table = stack.enter_context(table_of(args, config))
        shown = for_command(lambda: f"{so_far[0].files:,} files", config, json=args.json)
        out = stack.enter_context(shown)
        filters: list[PartitionFilter | DynamicFilteringData]
        filters = [*filters_of(args, table, config)]
        if args.where is not None:
            from splitlib.spark.read.reader import partitions_where

            filters += partitions_where(spark, args.where, table, config)

        def show(found: Analysis) -> None:
            so_far[0] = found

        found = analyze_table(table, names, filters, config, show)
        out.print(dump(asdict(found)) if args.json else str(found))
    if config.statistics_location is None:
        print("note: the statistics are not kept. Set statistics_location.", file=sys.stderr)
    return 0 if found.saved else 1


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
    conf_option(parser)
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
    if not 0 <= args.fail_under <= 100:
        raise ConfigError(f"--fail-under {args.fail_under:g} is not a number from 0 to 100.")
    queries = dict(_queries(args.file))
    found = audited(queries, pairs("conf", args.conf), files=args.files)
    if args.json:
        print(dump(found.to_dict()))
    else:
        print(found.to_html() if args.html else found)
    failed = any(query.is_error for query in found.queries)
    return int(failed or found.pruned_percent < args.fail_under)


def _queries(files: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each query in the SQL files."""
    for file in files:
        try:
            data = open_stdin().buffer.read() if file == STDIN else Path(file).read_bytes()
            text = data.decode("utf-8-sig")
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
    """Audit queries in a new Spark session. The tables' files are listed only if ``files`` is true.

    Raises:
        SplitlibError: see :func:`splitlib.diagnosis.session.spark_session`.
    """
    with spark_session("splitlib audit", conf) as spark:
        from splitlib.spark.audit import audit

        return audit(spark, queries, files=files)
