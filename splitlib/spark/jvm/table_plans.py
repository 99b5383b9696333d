"""Look up Spark's plan for a table name, and the files that a table's metadata lists.

Delta tables, Iceberg tables and the file sinks of streaming queries have such metadata. The listed
files may be outside the table's directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyspark.errors import AnalysisException

from splitlib.errors import UnsupportedTable
from splitlib.redaction import get_logger
from splitlib.spark.compat import condition_of
from splitlib.spark.conversion import quoted
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.file_index import directories_of, files_in
from splitlib.spark.jvm.gateway import JVM_ERRORS, Jvm, analyzed_plan
from splitlib.spark.jvm.java_handles import JavaArray, JavaClass, MethodHandle
from splitlib.spark.jvm.listing import PATH, hadoop_path
from splitlib.spark.jvm.pinned_relation import relation_of_directory
from splitlib.spark.jvm.plans import CATALYST
from splitlib.spark.jvm.relations import SCANNED_TABLE
from splitlib.spark.jvm.scala import Scala, each
from splitlib.spark.jvm.spark_handles import (
    CatalogEntry,
    CatalystExpression,
    FileIndex,
    JvmSession,
    LogicalPlan,
)
from splitlib.storage import is_restricted, refuse_outside

_DELTA_COMMANDS: Final = "org.apache.spark.sql.delta.commands."
_LISTED_BY_SPARK: Final = "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex"
_LOCAL_SCAN: Final = "org.apache.spark.sql.connector.read.LocalScan"
_PREPARED: Final = "PreparedDeltaFileIndex"
_SESSION_CATALOG: Final = re.compile(r"^\s*(`?)spark_catalog\1\s*\.", re.IGNORECASE)
_OBJECT: Final = "java.lang.Object"


def leaves_that_read(catalyst: Catalyst, plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """Yield the leaves of a plan and of its subqueries that read data.

    A Delta command is itself a leaf. Instead of the command, yield the leaves of its target and
    source plans.
    """
    for leaf in catalyst.plans.all_leaves(plan):
        parts = _inside_command(catalyst, leaf)
        for part in parts:
            yield from leaves_that_read(catalyst, part)
        if not parts:
            yield leaf


def _inside_command(catalyst: Catalyst, leaf: LogicalPlan) -> list[LogicalPlan]:
    """Return the plans of a Delta command's target and source, or [] for any other leaf."""
    if str(leaf.getClass().getName()).startswith(_DELTA_COMMANDS):
        match catalyst.plans.kind(leaf):
            case "DeleteCommand" | "UpdateCommand":
                return [leaf.target()]
            case "MergeIntoCommand":
                return [leaf.target(), leaf.source()]
    return []


def runs_program(catalyst: Catalyst, plan: LogicalPlan) -> bool:
    """Return whether a plan or one of its subqueries starts a program with TRANSFORM."""
    name = catalyst.scala.functions.calling(f"{CATALYST}.trees.TreeNode", "nodeName")
    plans = (plan, *each(plan.subqueriesAll()))
    return any(
        "ScriptTransformation" in catalyst.scala.texts(one.map(name)) for one in plans
    ) or any(
        runs_program(catalyst, part)
        for leaf in catalyst.plans.all_leaves(plan)
        for part in _inside_command(catalyst, leaf)
    )


def named_files(catalyst: Catalyst, leaf: LogicalPlan) -> list[str] | None:
    """Return the paths of the files that table metadata or Spark's file index lists for a leaf.

    Args:
        catalyst: Access to the plans of the session.
        leaf: A leaf for which ``kind_of_source`` returns ``located``. In an optimized plan, a leaf
            may read fewer files than its table has.

    Returns:
        The paths of the files, or None for a leaf whose directories come from the catalog.

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
            listed = files_in(catalyst.scala, directories_of(catalyst.scala, index)).files
            return [str(path) for path in listed["path"].to_pylist()]
    except JVM_ERRORS as error:
        raise RuntimeError("The files of a table cannot be determined.") from error
    return None


def _files_of_delta(catalyst: Catalyst, index: FileIndex) -> list[str]:
    """Return the file paths of a ``TahoeFileIndex``, including its deletion vector files."""
    scala, functions = catalyst.scala, catalyst.scala.functions
    # A PreparedDeltaFileIndex already contains the files that match the query's filters.
    if str(index.getClass().getSimpleName()) == _PREPARED:
        files = index.preparedScan().files()
    else:
        files = index.matchingFiles(scala.nil, scala.nil)
    if files.isEmpty():
        return []
    found = scala.texts(scala.seq_of_array(index.inputFiles()))
    vector = _method(scala, files.head().getClass(), "deletionVector")
    is_there = functions.function(functions.method("java.util.Objects", "nonNull", _OBJECT))
    vectors = scala.mapped(files, functions.function(vector)).filter(is_there)
    if vectors.isEmpty():
        return found
    class_ = vectors.head().getClass()
    vectors = vectors.filter(functions.function(_method(scala, class_, "isOnDisk")))
    absolute = functions.handle(functions.declared(class_, "absolutePath", PATH))
    absolute = functions.bound(absolute, 1, index.path())
    return found + scala.texts(scala.mapped(vectors, functions.function(absolute)))


def _files_of_iceberg(catalyst: Catalyst, leaf: LogicalPlan) -> list[str]:
    """Plan a scan of an Iceberg table, and return the paths of its data and delete files."""
    scala, functions = catalyst.scala, catalyst.scala.functions
    if catalyst.plans.kind(leaf) == SCANNED_TABLE:
        scan = leaf.scan()
    else:
        scan = leaf.table().newScanBuilder(leaf.options()).build()
    if scala.jvm.is_a(scan, _LOCAL_SCAN):  # Iceberg has computed an aggregate from metadata
        return []
    tasks = scala.jvm.class_("java.util.ArrayList")()
    for partition in scan.toBatch().planInputPartitions():
        tasks.addAll(partition.taskGroup().tasks())
    # Jars added to the session have their own class loader, so the table's class loader is used.
    loader = catalyst.relations.table_of(leaf).getClass().getClassLoader()
    of_iceberg = "org.apache.iceberg.{}".format
    of_task = loader.loadClass(of_iceberg("FileScanTask"))
    # For a task that is not a FileScanTask, the JVM raises an error here. `named_files` then
    # reports that the files cannot be determined.
    planned = scala.seq_of_array(tasks.toArray())
    files = scala.mapped(planned, functions.function(_method(scala, of_task, "file")))
    to_array = functions.method("java.util.List", "toArray")
    deletes = functions.then(_method(scala, of_task, "deletes"), to_array)
    deletes = functions.then(deletes, scala.array_to_seq())
    files = scala.joined(files, scala.flat_mapped(planned, functions.function(deletes)))
    location = _method(scala, loader.loadClass(of_iceberg("ContentFile")), "location")
    return scala.texts(scala.mapped(files, functions.function(location)))


def _method(scala: Scala, class_: JavaClass, name: str) -> MethodHandle:
    """Return a handle of a public method that has no parameters and may be inherited."""
    nothing: JavaArray[JavaClass] = scala.jvm.array("java.lang.Class", 0)
    return scala.functions.handle(class_.getMethod(name, nothing))


_log = get_logger(__name__)
_NO_SUCH_NAME: Final = (
    "CATALOG_NOT_FOUND",
    "REQUIRES_SINGLE_PART_NAMESPACE",
    "SCHEMA_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
    "PARSE_SYNTAX_ERROR",
)


class TableRead(NamedTuple):
    """The plan with which Spark reads a table."""

    plan: LogicalPlan
    """Plan that reads the table's rows."""
    leaf: LogicalPlan
    """Relation that this plan reads; the plan itself if it reads no relation or more than one, or
    if it changes rows."""
    alias: LogicalPlan | None = None
    """``SubqueryAlias`` above the plan, which qualifies columns with the table's name; None if
    there is none."""


def read_of_table(catalyst: Catalyst, name: str) -> TableRead | None:
    """Return Spark's plan for a table name, or None if there is no such table.

    Args:
        catalyst: Access to the plans of the session.
        name: The name, as in ``spark.table(name)``.

    Raises:
        UnsupportedTable: if Spark cannot find the table's data source.
        LocationNotAllowed: if the table is outside ``allowed_locations``.
    """
    _refuse_location(catalyst, name)
    try:
        # A clone of the session resolves the name, so that Spark does not cache the table and its
        # files in the user's session.
        plan = _session_of_names(catalyst, name).table(name).queryExecution().analyzed()
    except JVM_ERRORS as error:
        if isinstance(error, AnalysisException) and condition_of(error) in _NO_SUCH_NAME:
            return None
        provider = re.search(r"\[DATA_SOURCE_NOT_FOUND\] (.*?)\.\s", str(error))
        if provider is None:
            raise
        hint = "add the data source's packages to the session; spark.table needs them as well."
        raise UnsupportedTable(f"{provider[1]}.", hint=hint) from error
    alias = plan if catalyst.plans.kind(plan) == "SubqueryAlias" else None
    while catalyst.plans.kind(plan) == "SubqueryAlias":
        plan = plan.child()
    if catalyst.relations.is_table(plan):
        leaf = plan.newInstance()  # the copy has new attribute ids
        return TableRead(leaf, leaf, alias)
    return TableRead(plan, relation_below(catalyst, plan) or plan, alias)


def _session_of_names(catalyst: Catalyst, name: str) -> JvmSession:
    """Return a clone of the session that resolves a name as the session does.

    Spark clones the current database of its own catalog, but no other current catalog.
    """
    clone = catalyst.execution.own_session
    if not _SESSION_CATALOG.match(name):
        names = catalyst.session.sessionState().catalogManager()
        own = clone.sessionState().catalogManager()
        own.setCurrentCatalog(names.currentCatalog().name())
        namespace = names.currentNamespace()
        if list(own.currentNamespace()) != list(namespace):
            own.setCurrentNamespace(namespace)
    return clone


def is_orc_table(leaf: LogicalPlan) -> bool:
    """Return whether the leaf of a DataSource V2 table reads ORC files with Spark's reader."""
    return leaf.table().getClass().getName().endswith(".v2.orc.OrcTable")


def _refuse_location(catalyst: Catalyst, name: str) -> None:
    """Raise an error if the table's location is not allowed, before Spark lists the location."""
    if not is_restricted():
        return
    state = catalyst.execution.own_session.sessionState()
    try:
        # The parser accepts no catalog in the name. Only the session's catalog lists files.
        without = _SESSION_CATALOG.sub("", name)
        current = catalyst.session.sessionState().catalogManager().currentCatalog()
        if without == name and current.name() != "spark_catalog":
            return
        identifier = state.sqlParser().parseTableIdentifier(without)
        if not state.catalog().tableExists(identifier):
            return
        location = state.catalog().getTableMetadata(identifier).storage().locationUri()
    except JVM_ERRORS:
        _log.debug("The catalog lookup of %s failed.", name, exc_info=True)
        return
    if location.isDefined():
        refuse_outside([hadoop_path(catalyst.scala.jvm, location.get()).toString()])


def relation_below(catalyst: Catalyst, plan: LogicalPlan) -> LogicalPlan | None:
    """Return the relation that a plan reads, if the plan only pads the relation's CHAR columns.

    Return None for any other plan, such as the row filters and column masks of access control.
    """
    shown: list[CatalystExpression] = []
    number = len(catalyst.plans.output(plan))
    while catalyst.plans.kind(plan) == "Project":
        shown += each(plan.projectList())
        plan = plan.child()
    if not catalyst.relations.is_table(plan) or len(catalyst.plans.output(plan)) != number:
        return None
    changed = (expression for expression in shown if expression.nodeName() != "AttributeReference")
    # Search the JSON, because Spark shortens long texts of expressions.
    return plan if all('"readSidePadding"' in one.toJSON() for one in changed) else None


def table_at(catalyst: Catalyst, name: str, location: str) -> LogicalPlan | None:
    """Return a plan leaf for the catalog table ``name``, or None if it is not at this location.

    The leaf is never read. It is added to plans because Spark searches plans for tables, for
    example before it overwrites a table. No files are listed. To create the relation of an
    unpartitioned table, Spark would list its files, so the leaf of such a table has no columns.

    Args:
        catalyst: Access to the plans of the session.
        name: The name of the table.
        location: The directory, as a Hadoop path.

    Returns:
        The leaf, or None if there is no such table at this location.
    """
    state = catalyst.execution.own_session.sessionState()
    try:
        identifier = state.sqlParser().parseTableIdentifier(name)
        if identifier.database().isEmpty() or not state.catalog().tableExists(identifier):
            return None
        metadata = state.catalog().getTableMetadata(identifier)
        if not _is_at(catalyst.scala.jvm, metadata, location):
            return None
        if _is_listed(metadata):
            leaf = analyzed_plan(relation_of_directory(catalyst.spark, location))
            return catalyst.plans.with_arguments(leaf, {2: catalyst.scala.some(metadata)})
        found = metadata.identifier()
        named = ("spark_catalog", found.database().get(), found.table())
        read = read_of_table(catalyst, quoted(*named))
        return read.leaf if read is not None and catalyst.relations.is_table(read.leaf) else None
    except JVM_ERRORS:
        _log.debug("The catalog lookup of %s failed.", name, exc_info=True)
        return None


def _is_at(jvm: Jvm, metadata: CatalogEntry, location: str) -> bool:
    """Return whether the directory of a ``CatalogTable`` is ``location``.

    Return False if the table's partitions are not in the catalog, because Spark would list the
    table's files to find them.
    """
    if metadata.storage().locationUri().isEmpty():
        return False
    partitioned = not metadata.partitionColumnNames().isEmpty()
    if partitioned and not _is_by_hive(metadata) and not metadata.tracksPartitionsInCatalog():
        return False
    paths = [hadoop_path(jvm, place).toUri().getPath() for place in (metadata.location(), location)]
    return paths[0] == paths[1]


def _is_by_hive(metadata: CatalogEntry) -> bool:
    provider = metadata.provider()
    return provider.isEmpty() or provider.get().lower() == "hive"


def _is_listed(metadata: CatalogEntry) -> bool:
    """Return whether Spark has to list the table's files to create its relation."""
    if not metadata.partitionColumnNames().isEmpty():
        return False
    # Spark converts Hive tables in Parquet or ORC to its own relations, which list the files.
    serde = metadata.storage().serde().toString()
    return not _is_by_hive(metadata) or re.search("(?i)parquet|orc", serde) is not None
