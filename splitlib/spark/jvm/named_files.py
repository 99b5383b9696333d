"""Find the files that are listed in the metadata of a table, and may be outside of its directory.

Delta and Iceberg tables have such metadata, and so do the file sinks of streaming queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.java_handles import Items, JavaArray, JavaClass, MethodHandle
from splitlib.spark.jvm.listing import PATH
from splitlib.spark.jvm.relations import SCANNED_TABLE
from splitlib.spark.jvm.scala import Scala
from splitlib.spark.jvm.spark_handles import FileIndex, LogicalPlan

_DELTA_COMMANDS: Final = "org.apache.spark.sql.delta.commands."
_LISTED_BY_SPARK: Final = "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex"
_LOCAL_SCAN: Final = "org.apache.spark.sql.connector.read.LocalScan"
_PREPARED: Final = "PreparedDeltaFileIndex"
_OBJECT: Final = "java.lang.Object"
_BETWEEN: Final = "\0"


def leaves_that_read(catalyst: Catalyst, plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """Yield the leaves of a plan and of its subqueries that read data.

    In a plan, a command of Delta is a leaf itself. The leaves of the command's target and source
    are yielded instead.
    """
    for leaf in catalyst.plans.all_leaves(plan):
        if str(leaf.getClass().getName()).startswith(_DELTA_COMMANDS):
            match catalyst.plans.kind(leaf):
                case "DeleteCommand" | "UpdateCommand":
                    parts = [leaf.target()]
                case "MergeIntoCommand":
                    parts = [leaf.target(), leaf.source()]
                case _:
                    parts = []
            for part in parts:
                yield from leaves_that_read(catalyst, part)
            if parts:
                continue
        yield leaf


def named_files(catalyst: Catalyst, leaf: LogicalPlan) -> list[str] | None:
    """Return the files that a leaf reads, if they are listed in the metadata of its table.

    Args:
        catalyst: Access to the plans of the session.
        leaf: A leaf for which ``kind_of_source`` returns ``located``. In an optimized plan, a leaf
            may read fewer files than its table has.

    Returns:
        The paths of the files; None for a leaf that reads directories of the catalog.

    Raises:
        RuntimeError: if the files cannot be determined.
    """
    try:
        source = catalyst.relations.metadata_source(leaf)
        if source == "iceberg":
            return _files_of_iceberg(catalyst, leaf)
        index = catalyst.relations.index_of(leaf)
        if index is None:
            return None
        if source == "delta":
            return _files_of_delta(catalyst, index)
        if catalyst.scala.jvm.is_a(index, _LISTED_BY_SPARK):
            listed = catalyst.relations.files_of(catalyst.relations.directories_of(index)).files
            return [str(path) for path in listed["path"].to_pylist()]
    except JVM_ERRORS as error:
        raise RuntimeError("The files of a table cannot be determined.") from error
    return None


def _files_of_delta(catalyst: Catalyst, index: FileIndex) -> list[str]:
    """Return the files of a ``TahoeFileIndex`` and the files of their deletion vectors."""
    scala, functions = catalyst.scala, catalyst.scala.functions
    # A prepared index already has the files that the conditions of the query selected.
    if str(index.getClass().getSimpleName()) == _PREPARED:
        files = index.preparedScan().files()
    else:
        files = index.matchingFiles(scala.nil, scala.nil)
    if files.isEmpty():
        return []
    found = _texts(scala, scala.seq_of_array(index.inputFiles()))
    vector = _method(scala, files.head().getClass(), "deletionVector")
    is_there = functions.function(functions.method("java.util.Objects", "nonNull", _OBJECT))
    vectors = scala.mapped(files, functions.function(vector)).filter(is_there)
    if vectors.isEmpty():
        return found
    class_ = vectors.head().getClass()
    vectors = vectors.filter(functions.function(_method(scala, class_, "isOnDisk")))
    absolute = functions.handle(functions.declared(class_, "absolutePath", PATH))
    absolute = functions.bound(absolute, 1, index.path())
    return found + _texts(scala, scala.mapped(vectors, functions.function(absolute)))


def _files_of_iceberg(catalyst: Catalyst, leaf: LogicalPlan) -> list[str]:
    """Return the data and delete files of an Iceberg table. This plans a scan of the table."""
    scala, functions = catalyst.scala, catalyst.scala.functions
    if catalyst.plans.kind(leaf) == SCANNED_TABLE:
        scan = leaf.scan()
    else:
        scan = leaf.table().newScanBuilder(leaf.options()).build()
    if scala.jvm.is_a(scan, _LOCAL_SCAN):  # an aggregate computed from metadata
        return []
    tasks = scala.jvm.class_("java.util.ArrayList")()
    for partition in scan.toBatch().planInputPartitions():
        tasks.addAll(partition.taskGroup().tasks())
    # The jars of the session have their own class loader.
    loader = catalyst.relations.table_of(leaf).getClass().getClassLoader()
    of_iceberg = "org.apache.iceberg.{}".format
    of_task = loader.loadClass(of_iceberg("FileScanTask"))
    # Other kinds of tasks raise an error here.
    planned = scala.seq_of_array(tasks.toArray())
    files = scala.mapped(planned, functions.function(_method(scala, of_task, "file")))
    to_array = functions.method("java.util.Collection", "toArray")
    deletes = functions.then(_method(scala, of_task, "deletes"), to_array)
    deletes = functions.then(deletes, scala.collections.array_to_seq(functions))
    files = scala.joined(files, scala.flat_mapped(planned, functions.function(deletes)))
    location = _method(scala, loader.loadClass(of_iceberg("ContentFile")), "location")
    return _texts(scala, scala.mapped(files, functions.function(location)))


def _method(scala: Scala, class_: JavaClass, name: str) -> MethodHandle:
    """Return a handle of a public method without arguments. The method may be inherited."""
    nothing: JavaArray[JavaClass] = scala.jvm.array("java.lang.Class", 0)
    return scala.functions.handle(class_.getMethod(name, nothing))


def _texts(scala: Scala, items: Items[object]) -> list[str]:
    return [] if items.isEmpty() else scala.text(items, _BETWEEN).split(_BETWEEN)
