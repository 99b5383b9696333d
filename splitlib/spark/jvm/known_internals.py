"""List the internal classes of Spark that splitlib uses, with their constructors and methods.

All listed members exist in Spark 3.5 and 4.0 to 4.3 with the same types, except for two names: the
package of the session's classes, and the class of ``Seq``. If new code calls another member, add
this member here. Members that differ between versions are not listed: the code that calls such a
member must look it up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_CATALYST: Final = "org.apache.spark.sql.catalyst"

# Methods and constructors (``new``) by package and class. Class names have the form that the Scala
# compiler writes: Foo$ for an object, A$B for a class inside another one.
_KNOWN: Final = {
    "SESSION": {
        "SparkSession": """
            baseRelationToDataFrame(BaseRelation)ClassicDataset
            cloneSession()ClassicSession
            parseDataType(String)DataType
            sessionState()SessionState
            sharedState()SharedState
            sparkContext()SparkContext
            table(String)ClassicDataset
        """,
        "SparkSession$": """
            clearActiveSession()void
            getActiveSession()Option
            setActiveSession(SparkSession)void
        """,
        "Dataset": """
            static ofRows(ClassicSession, LogicalPlan)ClassicDataset
            queryExecution()QueryExecution
            schema()StructType
        """,
    },
    "org.apache.spark.sql.execution": {
        "QueryExecution": """
            analyzed()LogicalPlan
            assertAnalyzed()void
            commandExecuted()LogicalPlan
            executedPlan()SparkPlan
            optimizedPlan()LogicalPlan
            sparkPlan()SparkPlan
            withCachedData()LogicalPlan
        """,
        "FileSourceScanExec": """
            dataFilters()Seq
            partitionFilters()Seq
            relation()HadoopFsRelation
        """,
        "SparkPlan": """
            collectLeaves()Seq
            executeCollect()InternalRow[]
        """,
        "CacheManager": "isEmpty()boolean",
        "LogicalRDD": "rdd()RDD",
        "LogicalRDD$": "",
    },
    "org.apache.spark.sql.execution.columnar": {
        "CachedRDDBuilder": "cachedPlan()SparkPlan",
        "InMemoryRelation": "cacheBuilder()CachedRDDBuilder",
    },
    "org.apache.spark.sql.execution.datasources": {
        "CatalogFileIndex": """
            filterPartitions(Seq)InMemoryFileIndex
            table()CatalogTable
        """,
        "DataSource$": "lookupDataSource(String, SQLConf)Class",
        "DataSourceStrategy$": "normalizeExprs(Seq, Seq)Seq",
        "FileStatusCache": "",
        "FileStatusWithMetadata": "fileStatus()FileStatus",
        "HadoopFsRelation": """
            new(FileIndex, StructType, StructType, Option, FileFormat, Map, SparkSession)
            copy(FileIndex, StructType, StructType, Option, FileFormat, Map, SparkSession)FsRelation
            bucketSpec()Option
            dataSchema()StructType
            fileFormat()FileFormat
            location()FileIndex
            options()Map
            partitionSchema()StructType
            schema()StructType
            sparkSession()SparkSession
        """,
        "InMemoryFileIndex": """
            new(SparkSession, Seq, Map, Option, FileStatusCache, Option, Option)
            allFiles()Seq
            listFiles(Seq, Seq)Seq
            rootPaths()Seq
        """,
        "InMemoryFileIndex$": (
            "bulkListLeafFiles(Seq, Configuration, PathFilter, SparkSession, Map)Seq"
        ),
        "LogicalRelation": """
            catalogTable()Option
            refresh()void
            relation()BaseRelation
        """,
        "PartitionDirectory": """
            files()Seq
            values()InternalRow
        """,
        "PartitionPath": "new(InternalRow, Path)",
        "PartitionSpec": "new(StructType, Seq)",
        "SharedInMemoryCache": """
            new(long, long)
            createForNewClient()FileStatusCache
        """,
        "v2.FileDataSourceV2": "fallbackFileFormat()Class",
    },
    "org.apache.spark.sql.internal": {
        "SessionState": """
            analyzer()Analyzer
            catalog()SessionCatalog
            catalogManager()CatalogManager
            conf()SQLConf
            executePlan(LogicalPlan, Value)QueryExecution
            functionRegistry()FunctionRegistry
            newHadoopConf()Configuration
            sqlParser()ParserInterface
            tableFunctionRegistry()TableFunctionRegistry
        """,
        "SharedState": "cacheManager()CacheManager",
        "SQLConf": """
            autoBroadcastJoinThreshold()long
            defaultSizeInBytes()long
            getConfString(String)String
            sessionLocalTimeZone()String
            setConfString(String, String)void
        """,
    },
    "org.apache.spark.sql.execution.datasources.v2": {
        "DataSourceV2Relation": """
            name()String
            options()StringMap
            table()Table
        """,
        "BatchScanExec": """
            inputPartitions()Seq
            scan()Scan
        """,
        "DataSourceV2ScanRelation": "relation()DataSourceV2Relation",
    },
    "org.apache.spark": {"SparkContext": "getRDDStorageInfo()RDDInfo[]"},
    "org.apache.spark.rdd": {
        "RDD": """
            id()int
            unpersist(boolean)RDD
        """,
    },
    "org.apache.spark.storage": {
        "RDDInfo": """
            diskSize()long
            id()int
            memSize()long
        """,
    },
    "org.apache.spark.sql.sources": {"DataSourceRegister": "shortName()String"},
    "org.apache.spark.util": {"ThreadUtils$": "parmap(Seq, String, int, Function)Seq"},
    f"{_CATALYST}": {
        "FunctionIdentifier": "funcName()String",
        "TableIdentifier": "table()String",
        "InternalRow": "toSeq(StructType)Seq",
        "InternalRow$": "fromSeq(Seq)InternalRow",
    },
    f"{_CATALYST}.catalog": {
        "CatalogTable": """
            createTime()long
            identifier()TableIdentifier
            location()URI
            partitionColumnNames()Seq
            partitionSchema()StructType
            provider()Option
            schema()StructType
            storage()StorageFormat
            tracksPartitionsInCatalog()boolean
            viewText()Option
        """,
        "CatalogTablePartition": """
            location()URI
            spec()Map
            toRow(StructType, String)InternalRow
        """,
        "ExternalCatalogUtils": "static getPartitionPathString(String, String)String",
        "HiveTableRelation": """
            new(CatalogTable, Seq, Seq, Option, Option)
            isPartitioned()boolean
            prunedPartitions()Option
            tableMeta()CatalogTable
        """,
        "SessionCatalog": """
            getPartition(TableIdentifier, Map)CatalogPartition
            getRawTempView(String)Option
            getTableMetadata(TableIdentifier)CatalogTable
            globalTempViewManager()GlobalTempViewManager
            listLocalTempViews(String)Seq
            listPartitionNames(TableIdentifier, Option)Seq
            listPartitionsByFilter(TableIdentifier, Seq)Seq
            listTemporaryFunctions()Seq
            tableExists(TableIdentifier)boolean
        """,
        "GlobalTempViewManager": """
            get(String)Option
            listViewNames(String)Seq
        """,
        "TemporaryViewRelation": "tableMeta()CatalogTable",
    },
    f"{_CATALYST}.expressions": {
        "Alias": "new(Expression, String, ExprId, Seq, Option, Seq)",
        "And": "new(Expression, Expression)",
        "AttributeReference": """
            exprId()ExprId
            qualifier()Seq
            withQualifier(Seq)AttributeReference
            name()String
        """,
        "BloomFilterMightContain": "new(Expression, Expression)",
        "CreateArray": "new(Seq, boolean)",
        "Expression": """
            children()Seq
            containsPattern(Value)boolean
            dataType()DataType
            deterministic()boolean
            eval(InternalRow)Object
            foldable()boolean
            references()AttributeSet
            sql()String
            withNewChildren(Seq)TreeNode
        """,
        "IsNull": "new(Expression)",
        "Literal": "new(Object, DataType)",
        "Literal$": "FalseLiteral()Literal",
        "NamedExpression$": "newExprId()ExprId",
        "Or": "new(Expression, Expression)",
        "PlanExpression": """
            plan()QueryPlan
            withNewPlan(QueryPlan)PlanExpression
        """,
        "TryEval": "new(Expression)",
        "XxHash64": "new(Seq)",
    },
    f"{_CATALYST}.optimizer": {
        "ComputeCurrentTime$": "apply(LogicalPlan)LogicalPlan",
        "InlineCTE": "apply(LogicalPlan)LogicalPlan",
        "ReplaceCurrentLike": "new(CatalogManager)",
        "ReplaceExpressions$": "apply(LogicalPlan)LogicalPlan",
        "SpecialDatetimeValues$": "apply(LogicalPlan)LogicalPlan",
    },
    f"{_CATALYST}.plans": {"LeftAnti$": "", "LeftSemi$": ""},
    f"{_CATALYST}.plans.logical": {
        "Command": "",
        "Filter": "new(Expression, LogicalPlan)",
        "HintInfo": "new(Option)",
        "Join": "new(LogicalPlan, LogicalPlan, JoinType, Option, JoinHint)",
        "JoinHint$": "NONE()JoinHint",
        "LocalRelation": "data()Seq",
        "LocalRelation$": "apply(Seq)LocalRelation",
        "LogicalPlan": """
            canonicalized()QueryPlan
            children()Seq
            collectLeaves()Seq
            containsPattern(Value)boolean
            deterministic()boolean
            expressions()Seq
            fastEquals(TreeNode)boolean
            flatMap(Function)Seq
            innerChildren()Seq
            makeCopy(Object[])TreeNode
            map(Function)Seq
            nodeName()String
            output()Seq
            productIterator()Iterator
            sameResult(QueryPlan)boolean
            semanticHash()int
            simpleString(int)String
            stats()Statistics
            subqueries()Seq
            subqueriesAll()Seq
            toJSON()String
            transformUpWithSubqueries(PartialFunction)QueryPlan
            resolved()boolean
            withNewChildren(Seq)TreeNode
        """,
        "NO_BROADCAST_HASH$": "",
        "ParsedStatement": "",
        "Project": """
            new(Seq, LogicalPlan)
            projectList()Seq
        """,
        "ResolvedHint": "new(LogicalPlan, HintInfo)",
    },
    f"{_CATALYST}.trees": {
        "TreePattern": """
            static CTE()Value
            static CURRENT_LIKE()Value
            static PLAN_EXPRESSION()Value
        """,
    },
    f"{_CATALYST}.analysis": {
        "Analyzer": "execute(LogicalPlan)LogicalPlan",
        "FunctionRegistry": """
            listFunction()Seq
            lookupFunction(FunctionIdentifier)Option
        """,
        "TableFunctionRegistry": """
            listFunction()Seq
            lookupFunction(FunctionIdentifier)Option
        """,
    },
    f"{_CATALYST}.util": {"CaseInsensitiveMap$": "apply(Map)CaseInsensitiveMap"},
    "org.apache.spark.sql.connector.catalog": {
        "CatalogManager": """
            currentCatalog()CatalogPlugin
            currentNamespace()String[]
            setCurrentCatalog(String)void
            setCurrentNamespace(String[])void
        """,
        "CatalogPlugin": "name()String",
    },
}

# Full names of other types in the signatures above: unlisted classes, and aliases of listed ones.
_TYPES: Final = {
    "AttributeSet": f"{_CATALYST}.expressions.AttributeSet",
    "BaseRelation": "org.apache.spark.sql.sources.BaseRelation",
    "CaseInsensitiveMap": f"{_CATALYST}.util.CaseInsensitiveMap",
    "CatalogPartition": f"{_CATALYST}.catalog.CatalogTablePartition",
    "Class": "java.lang.Class",
    "ClassicDataset": "SESSION.Dataset",
    "ClassicSession": "SESSION.SparkSession",
    "Configuration": "org.apache.hadoop.conf.Configuration",
    "DataType": "org.apache.spark.sql.types.DataType",
    "ExprId": f"{_CATALYST}.expressions.ExprId",
    "FileFormat": "org.apache.spark.sql.execution.datasources.FileFormat",
    "FileIndex": "org.apache.spark.sql.execution.datasources.FileIndex",
    "FileStatus": "org.apache.hadoop.fs.FileStatus",
    "Function": "scala.Function1",
    "FsRelation": "org.apache.spark.sql.execution.datasources.HadoopFsRelation",
    "InternalRow": f"{_CATALYST}.InternalRow",
    "Iterator": "scala.collection.Iterator",
    "JoinHint": f"{_CATALYST}.plans.logical.JoinHint",
    "JoinType": f"{_CATALYST}.plans.JoinType",
    "LocalRelation": f"{_CATALYST}.plans.logical.LocalRelation",
    "Map": "scala.collection.immutable.Map",
    "Object": "java.lang.Object",
    "Option": "scala.Option",
    "ParserInterface": f"{_CATALYST}.parser.ParserInterface",
    "PartialFunction": "scala.PartialFunction",
    "Path": "org.apache.hadoop.fs.Path",
    "PathFilter": "org.apache.hadoop.fs.PathFilter",
    "QueryPlan": f"{_CATALYST}.plans.QueryPlan",
    "Scan": "org.apache.spark.sql.connector.read.Scan",
    "SparkSession": "org.apache.spark.sql.SparkSession",
    "Statistics": f"{_CATALYST}.plans.logical.Statistics",
    "StorageFormat": f"{_CATALYST}.catalog.CatalogStorageFormat",
    "String": "java.lang.String",
    "StringMap": "org.apache.spark.sql.util.CaseInsensitiveStringMap",
    "StructType": "org.apache.spark.sql.types.StructType",
    "Table": "org.apache.spark.sql.connector.catalog.Table",
    "TreeNode": f"{_CATALYST}.trees.TreeNode",
    "URI": "java.net.URI",
    "Value": "scala.Enumeration$Value",
}
_PRIMITIVES: Final = {"boolean": "Z", "int": "I", "long": "J", "void": "V"}


class Member(NamedTuple):
    """A constructor or method of an internal class."""

    class_: str
    """Full name of the class."""
    name: str
    """Name of the method; ``new`` for a constructor."""
    descriptor: str
    """Argument and result types, as a JVM method descriptor."""
    is_static: bool
    """Whether the method is static."""


def known_classes(session: str) -> list[str]:
    """Return the full names of all listed classes. ``session`` replaces the text ``SESSION``."""
    names = [f"{package}.{name}" for package, classes in _KNOWN.items() for name in classes]
    return [name.replace("SESSION.", f"{session}.") for name in names]


def known_members(session: str, seq: str) -> Iterator[Member]:
    """Yield all listed constructors and methods.

    Args:
        session: Package of the session's classes.
        seq: Full name of the class ``Seq``.
    """
    types = (
        {name.rpartition(".")[2]: name for name in known_classes(session)} | _TYPES | {"Seq": seq}
    )
    types = {name: class_.replace("SESSION.", f"{session}.") for name, class_ in types.items()}
    for package, classes in _KNOWN.items():
        for class_, members in classes.items():
            for line in members.strip().splitlines():
                name, _, signature = line.strip().partition("(")
                arguments, _, result = signature.partition(")")
                given = [_descriptor(x, types) for x in arguments.split(", ") if x]
                descriptor = f"({''.join(given)}){_descriptor(result or 'void', types)}"
                is_static = name.startswith("static ")
                name = name.removeprefix("static ")
                class_name = f"{package}.{class_}".replace("SESSION.", f"{session}.")
                yield Member(class_name, name, descriptor, is_static)


def _descriptor(type_: str, types: dict[str, str]) -> str:
    if type_.endswith("[]"):
        return "[" + _descriptor(type_.removesuffix("[]"), types)
    return _PRIMITIVES.get(type_) or f"L{types[type_].replace('.', '/')};"
