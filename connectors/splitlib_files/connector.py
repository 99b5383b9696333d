"""The class :class:`FilesConnector`. The engine calls its methods in the order of this file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import (
    ConfigError,
    MissingPartition,
    SourceError,
    TableNotFound,
    UnsupportedTable,
    did_you_mean,
)
from splitlib.hive.partition_values import parse_type
from splitlib.model import FileBatch, PartitionBatch, ReadFormat, Requests, TableMetadata
from splitlib.spi import Connector, Predicate, check_options, flag
from splitlib.storage import SELECTING_OPTIONS, Storage, local_path, located
from splitlib_files.layout import Layout
from splitlib_files.names import DirectoryNames, escapes_of
from splitlib_files.schema import declared_schema, schema_of_file, schema_of_files
from splitlib_files.walk import GlobbedStorage, Walk

_OPTIONS = {
    "format",
    "merge_schema",
    "partition_schema",
    "path_glob",
    "percent_escapes",
    "read_options",
    "schema",
    "session_settings",
    "storage_options",
}
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_TIMESTAMP_TYPE = "spark.sql.timestampType"
_TIME_PARSER = "spark.sql.legacy.timeParserPolicy"
# Matches a directory named like a partition, `key=value/`, within a path.
_KEY = "[^/]*=[^/]*/"
_FORMATS = ("parquet", "orc", "json", "csv", "text")


class FilesConnector(Connector):
    """A table that consists only of directories, without a catalog.

    Options:
        format (str, default parquet): ``parquet``, ``orc``, ``json``, ``csv`` or ``text``.
        partition_schema (pyarrow.Schema | str): Partition keys and their types, as a
            ``pyarrow.Schema`` or as text such as ``"k int, d date"``. By default keys come from
            directory names, with the types that Spark infers from all values. To infer the types of
            several keys, every directory above the last level is listed when the table is opened.
        schema (pyarrow.Schema | str): Data columns, in the same form; by default the columns of the
            first file.
        merge_schema (bool): Whether to merge the columns of all Parquet or ORC files, as Spark's
            ``mergeSchema``. Opening the table then lists all directories and reads the footer of
            every file. The default is Spark's read option or, with a session, its setting.
        path_glob (str): Pattern for names of data files, such as ``*.csv`` or ``{a,b}-[0-9]*``, as
            Spark's ``pathGlobFilter``. Other files are not a part of the table.
        percent_escapes (str): Meaning of escapes such as ``%C3%A9`` in directory names. ``utf-8``:
            each escape is a byte of UTF-8, as pyarrow, Polars and DuckDB write it. ``spark``: each
            escape is a character, as Spark reads it; the default with Spark. Without Spark, a name
            that means different values in the two encodings is an error by default.
        storage_options (mapping): Options of the fsspec filesystem.
        read_options (mapping): Spark's options of the format, such as ``{"header": "true"}``.
    """

    def __init__(
        self,
        root: str,
        storage: Storage,
        metadata: TableMetadata,
        names: DirectoryNames,
        *,
        inferred: bool,
    ) -> None:
        self._root = root
        self._storage = storage
        self._metadata = metadata
        self._names = names
        self._inferred = inferred
        self.files_per_page = storage.files_per_page(root)

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Open the table in the directory ``name``, a path or URI."""
        _check(options)
        if not name.strip():
            raise ConfigError("No root directory is given.", hint="pass its path or URI.")
        root = name.rstrip("/") or "/"
        if located(root).protocol == "file":
            # Make the path absolute, because Spark may have another working directory. Remove "..",
            # because Hadoop resolves it by name, without following links.
            path = os.path.abspath(os.path.expanduser(local_path(root)))
            root = root if path == local_path(root) else path
        settings = options.get("session_settings")
        storage = _storage(options)
        names = DirectoryNames(
            escapes_of(options.get("percent_escapes"), None if settings is None else "spark")
        )
        try:
            layout = Layout(storage, root, names)
        except MissingPartition as error:
            hint = (
                "name the directory; path_glob= selects its files."
                if set("*?[") & set(name)
                else None
            )
            raise TableNotFound(f"There is no directory {name!r}.", hint=hint) from error
        except SourceError as error:
            if not isinstance(error.__cause__, NotADirectoryError):
                raise
            raise TableNotFound(error.message, hint=error.hint) from error
        keys = declared_schema(options.get("partition_schema"))
        data = declared_schema(options.get("schema"))
        form = _format(options)
        inferred = keys is None
        first = layout.first_file() if keys is None or data is None else None
        if keys is None:
            is_legacy = (settings or {}).get(_TIME_PARSER, "").upper() == "LEGACY"
            timestamp = _type_of_timestamps(settings or {})
            keys = layout.keys(first, timestamp=timestamp, is_legacy=is_legacy)
        elif layout.has_partitions and not len(keys):
            raise ConfigError(
                f"{root!r} has partitions, but partition_schema has no keys.",
                hint="omit partition_schema, or declare the keys in it.",
            )
        elif first is not None:
            _refuse_missing_keys(keys, names.keys(first.split("/")[:-1]))
        if data is None:
            data = _columns(storage, layout, root, first, options)
        taken = {key.name.lower() for key in keys}
        if (settings or {}).get("spark.sql.caseSensitive", "").lower() == "true":
            _refuse_same_but_case(data, keys)
        schema = pa.schema([f for f in data if f.name.lower() not in taken] + list(keys))
        read_format = ReadFormat.of(form, options.get("read_options"))
        metadata = TableMetadata(schema, tuple(keys.names), read_format, root)
        return cls(root, storage, metadata, names, inferred=inferred)

    def describe(self) -> TableMetadata:
        """Return the table's columns, partition keys, format and location."""
        return self._metadata

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the table's partitions, in batches.

        Each partition's handle is the path of its directory, relative to the root.
        """
        keys = self._metadata.partition_schema
        names, inferred = self._names, self._inferred
        yield from Walk(self._storage, self._root, keys, predicate, names, inferred=inferred)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield one batch with the data files of at least the first partition.

        The batch reports how many of ``partitions`` it covers. The engine requests the rest later.
        ``predicate`` is unused, because this connector has no file statistics.
        """
        locations = [self._root + directory for directory in partitions.refs.to_pylist()]
        # As in Spark, files in a partition's subdirectories belong to the partition. Hive on Tez
        # creates such subdirectories for UNION ALL.
        below = bool(self._metadata.partition_keys)
        files, requests, listed = self._storage.list_first(locations, below=below)
        if below:
            self._refuse_other_keys(files["path"])
        took = Requests(storage=requests)
        yield FileBatch(files, self._metadata.read_format, took, partitions_listed=listed)

    def _refuse_other_keys(self, paths: pa.Array) -> None:
        """Reject files in directories such as ``k3=1`` if the table has no partition key ``k3``.

        Raises:
            SourceError: if there is such a file; the message names it.
        """
        above = pc.count_substring_regex(f"{local_path(self._root)}/", _KEY).as_py()
        found = pc.count_substring_regex(paths, _KEY)
        keys = len(self._metadata.partition_keys)
        others = paths.filter(pc.greater(found, above + keys))
        if len(others):
            raise SourceError(
                f"The path of file {others[0].as_py()!r} has more partition keys than "
                f"{', '.join(self._metadata.partition_keys)}.",
                hint="move it away, or pass the right partition_schema=.",
            )

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        """Return the user's fsspec options for a storage protocol."""
        return self._storage.given_options

    def check_identity(self) -> None:
        """Check that the root directory still exists.

        Raises:
            TableNotFound: if the directory was deleted.
        """
        try:
            self._storage.level(self._root)
        except MissingPartition as error:
            raise TableNotFound(f"Directory {self._root!r} no longer exists.") from error


def _refuse_missing_keys(declared: pa.Schema, found: Sequence[str]) -> None:
    """Reject ``partition_schema`` if it lacks a key from the path of the first file.

    Raises:
        ConfigError: if a key is missing. Case is ignored, as in Spark.
    """
    known = {name.lower() for name in declared.names}
    if missing := [name for name in found if name.lower() not in known]:
        raise ConfigError(
            f"partition_schema leaves out {', '.join(missing)}: the directories have the keys "
            f"{', '.join(found)}.",
            hint="declare all keys in the order of the directories, or omit partition_schema.",
        )


def _columns(
    storage: Storage, layout: Layout, root: str, first: str | None, options: Mapping[str, Any]
) -> pa.Schema:
    """Read the table's columns from its files, as Spark does."""
    form, settings = _format(options), options.get("session_settings")
    # Spark applies path_glob to summary files, too, and a glob such as *.parquet excludes them. So
    # with path_glob, the schema is that of data files.
    is_summarized = form == "parquet" and options.get("path_glob") is None
    summaries = [f"{root}/{name}" for name in layout.summary_files()] if is_summarized else []
    if _merges(form, options):
        return schema_of_files(storage, layout.all_files(), form, settings, summaries)
    data_file = None if first is None else f"{root}/{first}"
    return schema_of_file(storage, summaries[-1] if summaries else data_file, form, settings)


def _refuse_same_but_case(data: pa.Schema, keys: pa.Schema) -> None:
    lower = {key.name.lower(): key.name for key in keys}
    for column in data.names:
        key = lower.get(column.lower(), column)
        if key != column:
            raise UnsupportedTable(
                f"Column {column!r} and partition key {key!r} differ only in case.",
                hint="rename one of them, or set spark.sql.caseSensitive to false.",
            )


def _type_of_timestamps(settings: Mapping[str, str]) -> pa.DataType | None:
    """Return the type that Spark infers for timestamps, or None if type inference is off."""
    if settings.get(_INFERENCE, "true").lower() == "false":
        return None
    is_local = settings.get(_TIMESTAMP_TYPE, "").upper() == "TIMESTAMP_NTZ"
    return parse_type("timestamp_ntz" if is_local else "timestamp")


def _check(options: Mapping[str, Any]) -> None:
    """Reject unknown options, unknown formats, and read options that change the list of files.

    Raises:
        ConfigError: if there is such an option; the message names it.
    """
    check_options(options.keys() - {"session_settings"}, _OPTIONS - {"session_settings"})
    _format(options)
    selecting = {*SELECTING_OPTIONS, "recursivefilelookup", "basepath"}
    for option in options.get("read_options") or {}:
        if option.lower() in selecting:
            instead = "path_glob" if option.lower() == "pathglobfilter" else None
            raise ConfigError(
                f"Read option {option!r} would change the list of files.",
                hint=None if instead is None else f"pass {instead}=.",
            )


def _format(options: Mapping[str, Any]) -> str:
    """Return the format of the files, in lower case.

    Raises:
        ConfigError: for an unknown format.
    """
    given = options.get("format", "parquet")
    form = given.lower() if isinstance(given, str) else given
    if form not in _FORMATS:
        hint = did_you_mean(str(given), _FORMATS, otherwise="one of")
        if form in ("delta", "iceberg"):
            hint = f"pass connector={form!r}."
        raise ConfigError(f"Unknown format {given!r}.", hint=hint)
    return str(form)


def _storage(options: Mapping[str, Any]) -> Storage:
    given, glob = options.get("storage_options"), options.get("path_glob")
    if glob is None:
        return Storage(given)
    if not isinstance(glob, str) or not glob or "/" in glob:
        raise ConfigError(f"path_glob must be a pattern for file names, not {glob!r}.")
    return GlobbedStorage(given, glob)


def _merges(form: str, options: Mapping[str, Any]) -> bool:
    """Return whether to merge the columns of all files, as set in the options or in Spark.

    Raises:
        ConfigError: if ``merge_schema`` is neither true nor false, or is true for a format other
            than Parquet and ORC.
    """
    if options.get("merge_schema") is not None:
        merges = flag(options, "merge_schema")
        if merges and form not in ("parquet", "orc"):
            raise ConfigError(
                f"Files of {form} do not declare columns that could be merged.",
                hint="leave merge_schema out.",
            )
        return merges
    setting = f"spark.sql.{form}.mergeSchema"
    value = (options.get("session_settings") or {}).get(setting, "false")
    for option, given in (options.get("read_options") or {}).items():
        if option.lower() == "mergeschema":
            value = given
    return form in ("parquet", "orc") and str(value).strip().lower() == "true"
