"""Functions that create small tables and return their expected files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import parquet
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField

from benchmarks.metastore_tables import DATABASE, create_table
from splitlib.testing import HiveMetastore
from tests.chaos.subjects import KnownFile
from tests.support.delta_log import add, commit, field, metadata, protocol, remove, stored_vector
from tests.support.glue_server import GlueServer, stored
from tests.support.iceberg_tables import (
    add_deletes,
    append,
    create,
    data_file,
    delete_file,
    partition_of,
    paths_of,
)

COLUMNS, KEYS = "c bigint", "y int, k int"
_PARTITIONS = list(itertools.product(range(2), range(4)))
_FILES = 2
_SCHEMA = Schema(
    NestedField(1, "c", LongType(), required=False),
    NestedField(2, "y", IntegerType(), required=False),
    NestedField(3, "k", IntegerType(), required=False),
)
_SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "y"),
    PartitionField(3, 1001, IdentityTransform(), "k"),
)
_BY_FILE = "c"

Files = dict[str, KnownFile]


def write_tree(root: Path) -> Files:
    """Write Parquet files of different sizes to directories such as ``y=0/k=0``.

    Returns:
        The files, by their paths relative to ``root``.
    """
    files, numbers = {}, itertools.count(1)
    for (y, k), nth in itertools.product(_PARTITIONS, range(_FILES)):
        path = root / f"y={y}/k={k}/part-{nth}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = pa.table({"c": pa.array(range(20 * next(numbers)), pa.int64())})
        parquet.write_table(rows, path)
        values = {"y": y, "k": k}
        files[str(path.relative_to(root))] = KnownFile(path.stat().st_size, values, values)
    return files


def below(root: str, files: Mapping[str, KnownFile]) -> Files:
    """Return the same files with ``root`` in front of each path."""
    return {f"{root}/{path}": file for path, file in files.items()}


def make_hive_table(metastore: HiveMetastore, name: str, directory: Path, root: str) -> str:
    """Create a Hive table with the directories below ``root`` as partitions.

    Args:
        metastore: A running metastore.
        name: Name of the table.
        directory: Location of the table, an empty directory.
        root: URI of the directory that contains the partitions.

    Returns:
        The table's name, qualified with its database.
    """
    create_table(metastore, name, directory, [("c", "bigint")], [("y", "int"), ("k", "int")])
    texts = [(str(y), str(k)) for y, k in _PARTITIONS]
    locations = [f"{root}/y={y}/k={k}" for y, k in texts]
    metastore.bulk_add_partitions(DATABASE, name, texts, locations)
    return f"{DATABASE}.{name}"


def make_glue_table(server: GlueServer, name: str, root: str) -> str:
    """Create a table of Glue with the directories below ``root`` as partitions.

    Returns:
        The table's name, qualified with its database.
    """
    server.add_table(
        DATABASE,
        name,
        StorageDescriptor=stored(root, [{"Name": "c", "Type": "bigint"}]),
        PartitionKeys=[{"Name": "y", "Type": "int"}, {"Name": "k", "Type": "int"}],
        TableType="EXTERNAL_TABLE",
        Parameters={},
    )
    for y, k in _PARTITIONS:
        values = (str(y), str(k))
        partition = {"Values": [*values], "StorageDescriptor": stored(f"{root}/y={y}/k={k}")}
        server.partitions(DATABASE, name)[values] = partition
    return f"{DATABASE}.{name}"


def make_delta_table(directory: Path, root: str) -> Files:
    """Create a Delta table with a checkpoint, commits after it, and two deletion vectors.

    Args:
        directory: Directory of the table.
        root: URI of the same directory.

    Returns:
        The table's files by path.
    """
    tree = write_tree(directory)
    fields = [field("c", "long"), field("y", "integer"), field("k", "integer")]
    commit(directory, [protocol(), metadata(fields, ["y", "k"])])
    entries = {
        path: add(
            path, size=file.size, partitionValues={key: str(v) for key, v in file.values.items()}
        )
        for path, file in tree.items()
    }
    for number, path in enumerate(tree):
        commit(directory, [entries[path]])
        if number == len(tree) // 2:
            DeltaTable(str(directory)).create_checkpoint()
    files = below(root, tree)
    commit(directory, [protocol("deletionVectors")])
    for path, prefix in zip((*tree,)[1::7], ("a", "b"), strict=False):
        vector = stored_vector(directory, [0, 3], prefix=prefix)
        entry = {"add": {**entries[path]["add"], "deletionVector": vector}}
        commit(directory, [remove(path), entry])
        (written,) = (directory / prefix).iterdir()
        deletes = (f"{root}/{prefix}/{written.name}",)
        files[f"{root}/{path}"] = files[f"{root}/{path}"]._replace(deletes=deletes)
    return files


def make_iceberg_table(options: Mapping[str, Any]) -> tuple[str, Files]:
    """Create an Iceberg table with several data and delete manifests, but no data files.

    Args:
        options: Properties of the catalog.

    Returns:
        The table's name, and its files by path.
    """
    catalog = load_catalog(None, **options)
    catalog.create_namespace_if_not_exists("ns")
    table = create(catalog, _SCHEMA, _SPEC)
    files: Files = {}
    numbers = itertools.count(1)
    for k in range(4):
        rows = [{"c": next(numbers), "y": y, "k": k} for y in range(2) for _ in range(_FILES)]
        written = [data_file(table, [row] * row["c"]) for row in rows]
        append(table, written)
        for row, path in zip(rows, paths_of(written), strict=True):
            files[path] = KnownFile(1000, {"y": row["y"], "k": k}, row)
    for row in ({"y": 0, "k": 1}, {"y": 1, "k": 2}):
        partition = partition_of(table, row)
        deleting = delete_file(table, partition, DataFileContent.POSITION_DELETES)
        add_deletes(table, deleting)
        path, struck = deleting.file_path.removeprefix("file://"), dict(row)
        for each, file in files.items():
            if file.values == struck:
                files[each] = file._replace(deletes=(*file.deletes, path))
    name = ".".join(table.name())
    catalog.close()
    return name, files
