"""Reading explicit files without listing anything, through Spark's own classes.

Everything that depends on Spark's internals is in this file. `InMemoryFileIndex` normally lists
its root directories; here its one root does not exist, and what it would have found there is put
into its cache beforehand. Which files belong to which partition is then set directly, since Spark
would go by directory, and directories may be shared, nested or mixed.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from splitlib.model import FILE_SCHEMA
from splitlib.spark.local_rows import typed_columns
from splitlib.spark.time_zones import session_time_zone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

    from splitlib.spark.file_scan import FileScan

# Indexes are equal when their roots are, and Spark reads once, or takes from its cache, what is
# equal: the root of a scan is a digest of what it reads. Spark takes a root that is not found for
# an empty one; over http listing is an error instead: REFRESH TABLE on a view of the scan fails,
# and the files stay pinned, where they would be forgotten without a word.
PINNED_ROOT: Final = "http://pinned-by-splitlib/"
"""Where the files of a pinned scan seem to lie."""

PINNED_OPTIONS: Final = {"ignoreMissingFiles": "false"}
"""Options of every pinned scan: a file that has gone is an error, whatever the session says."""

_BY_FIELD_ID: Final = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # a file without identifiers is an error, not a file of nulls
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    # a struct is not null for having only fields that its file lacks
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
}


def has_file_system(spark: object, scheme: str) -> bool:
    """Return whether Hadoop is told which file system paths of a scheme belong to."""
    key = f"fs.{scheme}.impl"
    if not isinstance(spark, SparkSession):
        return spark.conf.get(f"spark.hadoop.{key}", None) is not None  # type: ignore[attr-defined]  # of Spark Connect
    return _session(spark).sessionState().newHadoopConf().get(key) is not None


def pinned_relation(spark: SparkSession, scan: FileScan, name: str | None = None) -> Any:
    """Return the scan as Spark's `HadoopFsRelation`, a JVM object.

    Args:
        spark: As for `pinned_scan`.
        scan: What to read.
        name: What tells it from other scans; None = what it reads.

    Raises:
        RuntimeError: As `pinned_scan`.
    """
    jvm = _jvm(spark.sparkContext._gateway)
    session = _session(spark)
    keys = session.parseDataType(scan.partition_schema.json()).asNullable()
    index = _file_index(spark, scan, jvm, keys, name or _digest(spark, scan))
    _verify(index, scan, jvm)
    return jvm.HadoopFsRelation(
        index,
        keys,
        session.parseDataType(scan.data_schema.json()).asNullable(),
        jvm.none,
        jvm.file_format(scan.format, session),
        jvm.options(with_pinned_options(scan.options)),
        _finding_by_id(session) if scan.by_field_id else session,
    )


def relation_of_directory(spark: SparkSession, location: str) -> DataFrame:
    """Return a relation of whatever is in a directory, which it does not look into; no columns.

    It is for Spark to find in a plan, not for being read.
    """
    jvm = _jvm(spark.sparkContext._gateway)
    session, root = _session(spark), jvm.Path(location)
    cache = jvm.SharedInMemoryCache(1 << 40, -1).createForNewClient()
    cache.putLeafFiles(root, jvm.statuses(encode_statuses(FILE_SCHEMA.empty_table()), 0))
    columns = session.parseDataType(StructType().json())
    index = jvm.InMemoryFileIndex(
        session, jvm.nil.appended(root), jvm.options({}), jvm.none, cache, jvm.none, jvm.none
    )
    text = jvm.file_format("text", session)
    relation = jvm.HadoopFsRelation(
        index, columns, columns, jvm.none, text, jvm.options({}), session
    )
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return ClassicDataFrame(session.baseRelationToDataFrame(relation), spark)


def with_pinned_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a data source, whose names know no case, with those of a pinned scan."""
    pinned = {name.lower() for name in PINNED_OPTIONS}
    return {k: v for k, v in options.items() if k.lower() not in pinned} | PINNED_OPTIONS


def _finding_by_id(session: Any) -> Any:
    """A session that finds Parquet columns by identifier, which only a session can be told.

    A relation reads with the settings of the session it is made with, so that those of `session`
    that matter to the reader hold as they are now.
    """
    clone = session.cloneSession()
    for setting, value in _BY_FIELD_ID.items():
        clone.sessionState().conf().setConfString(setting, value)
    return clone


def group_by_partition(spark: SparkSession, index: Any, statuses: Any) -> None:
    """Tell an index of pinned files, given as a `FileStatus[]`, which partition each belongs to."""
    jvm = _jvm(spark.sparkContext._gateway)
    jvm.files_by_directory.set(index, jvm.group_by_partition(statuses))


def encode_statuses(files: pa.Table) -> bytes:
    """Serialize files as Hadoop writes an `ArrayWritable` of `FileStatus`.

    Each status is the message `FileStatusProto` of Hadoop's FSProtos.proto behind its length. The
    field `owner`, which Spark does not look at, carries the number of the partition.

    Args:
        files: Columns path, size, modified and partition.
    """
    columns = (files[name].to_pylist() for name in ("path", "size", "modified", "partition"))

    def messages() -> Iterator[bytes]:
        yield files.num_rows.to_bytes(4, "big")
        for path, size, modified, partition in zip(*columns, strict=True):
            name, owner = path.encode(), b"%d" % partition
            message = b"".join(
                (
                    b"\x08\x02",  # fileType = FT_FILE
                    b"\x12" + _varint(len(name)) + name,
                    b"\x18" + _varint(size),
                    b"\x2a" + _varint(len(owner)) + owner,
                    b"\x38" + _varint(modified),
                )
            )
            yield len(message).to_bytes(4, "big")
            yield message

    return b"".join(messages())


def _varint(value: int) -> bytes:
    """Encode as protobuf's uint64; a negative number is its two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _digest(spark: SparkSession, scan: FileScan) -> str:
    """A text that two scans share only if they read the same files to the same partition values.

    Schemas of the data, format and options are no part of it: Spark itself compares those.
    """
    columns = [scan.files[name] for name in ("path", "size", "modified")]
    if scan.partition_schema.fields:
        columns += scan.partitions.take(scan.files["partition"]).columns
    # without its order, in which partitions may have been listed by several threads
    files = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    files = files.sort_by("c0").combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema) as stream:
        stream.write_table(files)
    # text becomes an instant in the session's zone
    zone = session_time_zone(spark)
    meaning = f"{scan.partition_schema.json()} {scan.by_field_id} {zone} "
    return hashlib.sha256(meaning.encode() + sink.getvalue().to_pybytes()).hexdigest()


def _file_index(spark: SparkSession, scan: FileScan, jvm: _Jvm, keys: Any, name: str) -> Any:
    statuses = jvm.statuses(encode_statuses(scan.files), scan.files.num_rows)
    root = jvm.Path(f"{PINNED_ROOT}{name}")
    # a cache shared with other scans evicts, and what was evicted is no file to Spark
    cache = jvm.SharedInMemoryCache(1 << 40, -1).createForNewClient()
    cache.putLeafFiles(root, statuses)
    partitioned = bool(scan.partition_schema.fields)
    directories = jvm.partition_paths(_internal_rows(spark, scan)) if partitioned else jvm.nil
    index = jvm.InMemoryFileIndex(
        _session(spark),
        jvm.nil.appended(root),
        # without partitions Spark would look for files right under the root
        jvm.options({} if partitioned else {"recursiveFileLookup": "true"}),
        jvm.Some(keys),
        cache,
        jvm.Some(jvm.PartitionSpec(keys, directories)),
        jvm.none,
    )
    jvm.files_by_directory.set(index, jvm.group_by_partition(statuses))
    return index


def _internal_rows(spark: SparkSession, scan: FileScan) -> Any:
    """Return the typed partition values as a JVM array of `InternalRow`, in the given order."""
    frame = typed_columns(spark, scan.partitions, scan.partition_schema)
    return frame._jdf.queryExecution().executedPlan().executeCollect()


def _verify(index: Any, scan: FileScan, jvm: _Jvm) -> None:
    """Ask Spark what it would read: nothing may be left out or come twice."""
    read = index.listFiles(jvm.nil, jvm.nil).flatMap(jvm.files_of_directory).size()
    distinct = index.allFiles().size()
    if (read, distinct) != (scan.files.num_rows, pc.count_distinct(scan.files["path"]).as_py()):
        msg = f"Spark took {read} files ({distinct} distinct) of {scan.files.num_rows} given"
        raise RuntimeError(msg)


def _session(spark: SparkSession) -> Any:
    return spark._jsparkSession


@functools.lru_cache(maxsize=1)
def _jvm(gateway: Any) -> _Jvm:
    return _Jvm(gateway)


class _Jvm:
    """What is needed of the JVM, looked up once: each part of a name costs py4j a round trip.

    Nothing is called once per file or partition. Methods and constructors become Scala functions,
    and Scala's collections apply them.
    """

    def __init__(self, gateway: Any) -> None:
        root = gateway.jvm
        datasources = root.org.apache.spark.sql.execution.datasources
        self.SharedInMemoryCache = datasources.SharedInMemoryCache
        self.InMemoryFileIndex = datasources.InMemoryFileIndex
        self.HadoopFsRelation = datasources.HadoopFsRelation
        self.PartitionSpec = datasources.PartitionSpec
        self.Path = root.org.apache.hadoop.fs.Path
        self.Some = root.scala.Some
        self.none = _object(root.scala, "None")
        self.nil = _object(root.scala.collection.immutable, "Nil")
        self._gateway = gateway
        self._root = root
        self._for_name = root.java.lang.Class.forName
        self._lookup = root.java.lang.invoke.MethodHandles.publicLookup()
        self._file_status = root.org.apache.hadoop.fs.FileStatus
        self._file_status_class = self._for_name("org.apache.hadoop.fs.FileStatus")
        self._array_copy = root.java.lang.System.arraycopy
        self._array_writable = root.org.apache.hadoop.io.ArrayWritable
        self._data_input = root.java.io.DataInputStream
        self._bytes_input = root.java.io.ByteArrayInputStream
        self._array_seq = _object(root.scala.collection.immutable, "ArraySeq")
        self._array_ops = _object(root.scala.collection, "ArrayOps")
        self._build_from = _object(root.scala.collection, "BuildFrom").buildFromIterableOps()
        self._case_insensitive = _object(
            root.org.apache.spark.sql.catalyst.util, "CaseInsensitiveMap"
        )
        self._file_source_v2 = self._for_name(
            "org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2"
        )
        self._empty_map = _object(root.scala.collection.immutable, "Map").empty()
        self._data_source = _object(datasources, "DataSource")
        self._make_functions()

    def _make_functions(self) -> None:
        spark = "org.apache.spark.sql.execution.datasources."
        path_class, text, row = (
            "org.apache.hadoop.fs.Path",
            "java.lang.String",
            "org.apache.spark.sql.catalyst.InternalRow",
        )
        then = self._root.java.lang.invoke.MethodHandles.filterReturnValue
        to_path = self._constructor(path_class, text)
        to_text = self._method(text, "valueOf", "java.lang.Object")
        owner = self._method("org.apache.hadoop.fs.FileStatus", "getOwner")
        files = self._method(spark + "PartitionDirectory", "files")
        partition_path = self._constructor(spark + "PartitionPath", row, path_class)
        self._number_to_path = self._function(1, then(to_text, to_path))
        self._status_to_path = self._function(1, then(owner, to_path))
        self._to_partition_path = self._function(2, partition_path)
        self.files_of_directory = self._function(1, files)
        self.files_by_directory = self._for_name(spark + "InMemoryFileIndex").getDeclaredField(
            "cachedLeafDirToChildrenFiles"
        )
        self.files_by_directory.setAccessible(True)

    def statuses(self, encoded: bytes, count: int) -> Any:
        """Return a `FileStatus[]` of what `encode_statuses` made."""
        writable = self._array_writable(self._file_status_class)
        writable.readFields(self._data_input(self._bytes_input(encoded)))
        statuses = self._gateway.new_array(self._file_status, count)
        self._array_copy(writable.get(), 0, statuses, 0, count)
        return statuses

    def partition_paths(self, rows: Any) -> Any:
        """Return a `Seq[PartitionPath]`; the directory of each is just its number."""
        values = self._array_seq.unsafeWrapArray(rows)
        numbers = values.indices().map(self._number_to_path)
        return values.lazyZip(numbers).map(self._to_partition_path, self._build_from)

    def group_by_partition(self, statuses: Any) -> Any:
        """Return a `Map[Path, FileStatus[]]` by the directories that `partition_paths` gives."""
        return getattr(self._array_ops, "groupBy$extension")(statuses, self._status_to_path)

    def file_format(self, name: str, session: Any) -> Any:
        """Return a new `FileFormat` of this short name."""
        source = self._data_source.lookupDataSource(name, session.sessionState().conf())
        instance = self._new(source)
        # built-in formats are registered by their newer interface, which knows the older one
        if self._file_source_v2.isInstance(instance):
            return self._new(instance.fallbackFileFormat())
        return instance

    def options(self, options: Any) -> Any:
        """Return a Scala `Map` that, as Spark's own, does not distinguish the case of names."""
        plain = self._empty_map
        for name, value in options.items():
            plain = plain.updated(name, value)
        return self._case_insensitive.apply(plain)

    def _new(self, class_: Any) -> Any:
        return class_.getConstructor(self._classes()).newInstance(
            self._gateway.new_array(self._root.java.lang.Object, 0)
        )

    def _classes(self, *names: str) -> Any:
        array = self._gateway.new_array(self._root.java.lang.Class, len(names))
        for i, name in enumerate(names):
            array[i] = self._for_name(name)
        return array

    def _constructor(self, class_: str, *arguments: str) -> Any:
        constructor = self._for_name(class_).getConstructor(self._classes(*arguments))
        return self._lookup.unreflectConstructor(constructor)

    def _method(self, class_: str, name: str, *arguments: str) -> Any:
        return self._lookup.unreflect(
            self._for_name(class_).getMethod(name, self._classes(*arguments))
        )

    def _function(self, arity: int, handle: Any) -> Any:
        interface = self._for_name(f"scala.Function{arity}")
        proxies = self._root.java.lang.invoke.MethodHandleProxies
        return proxies.asInterfaceInstance(interface, handle)


def _object(package: Any, name: str) -> Any:
    """Return a Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
