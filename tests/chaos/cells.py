"""The matrix of fault tests. Each cell is a table, a stage of its enumeration and a fault."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from splitlib.testing import HiveMetastore
from splitlib_hive.client import parse_uris
from tests.chaos.lying_filesystem import FILE_IO, PROTOCOL
from tests.chaos.servers import (
    BUCKET,
    KEY,
    SECRET,
    ObjectStore,
    endpoint_of,
    storage_options,
)
from tests.chaos.subjects import LIES, PATIENT, READING_LIES, LyingSubject, ProxiedSubject, Subject
from tests.chaos.tables import (
    KEYS,
    below,
    make_delta_table,
    make_glue_table,
    make_hive_table,
    make_iceberg_table,
    write_tree,
)
from tests.chaos.treatments import HTTP, STREAM
from tests.support.glue_server import GlueServer

ANY = ""
_LISTED_DIRECTORY, _LISTED_PARTITION = r"^ls .*(tree|y=\d)$", r"^ls .*k=\d$"

_STORED_PARTITION = r"k%3D\d%2F&"
ICEBERG_STAGES = {
    "open": r"metadata\.json",
    "manifest list": "/snap-",
    "manifests": r"-m\d+\.avro",
    "restore": ANY,
}

_numbers = itertools.count()

ON_DISK = ("files on a disk", "iceberg on a disk", "delta on a disk")
OF_METASTORE = ("hive", "hive, two metastores", "hive on a disk")
OF_GLUE = ("glue",)
ON_STORE = ("files on S3", "iceberg on S3")
ON_BOTH = ("hive on S3",)


@dataclass(frozen=True)
class Cell:
    """A fault at one stage of the enumeration of a table."""

    subject: Subject
    stage: str
    fault: str
    is_promised: bool = True
    """Whether wrong splits count as a violation.

    False if the fault changes answers in ways that no client can detect. Wrong splits are then
    only counted.
    """

    @property
    def name(self) -> str:
        """Name of the cell in the results: its table, stage and fault."""
        return f"{self.subject.name} / {self.stage} / {self.fault}"


def is_selected(name: str, pattern: str) -> bool:
    """Return whether a pattern such as ``hive* / names / cut`` selects a cell.

    A pattern may have fewer parts than a name. The missing parts match everything.
    """
    parts, wanted = name.split(" / "), pattern.split(" / ")
    return all(fnmatch.fnmatch(*pair) for pair in zip(parts, wanted, strict=False))


def cells_of(subject: Subject) -> list[Cell]:
    """Return the cells of a table, for all faults at all stages. Undetectable faults come last."""
    promised = [Cell(subject, stage, fault) for stage in subject.stages for fault in subject.faults]
    measured = [
        Cell(subject, stage, fault, is_promised=False)
        for stage, faults in subject.unnoticed.items()
        for fault in faults
    ]
    return promised + measured


def disk_subjects(directory: Path) -> list[Subject]:
    """Create a table of Parquet files, an Iceberg and a Delta table on a faulty local disk."""
    root = f"{PROTOCOL}://{directory}/tree"
    files = LyingSubject(
        "files on a disk",
        "files",
        root,
        below(root, write_tree(directory / "tree")),
        {"open": ANY, "partitions": _LISTED_DIRECTORY, "files": _LISTED_PARTITION, "restore": ANY},
        lambda lies: {"partition_schema": KEYS, "storage_options": {"lies": lies}},
        {"partitions": ("left out",), "files": ("left out",)},
        lies=(*LIES, "swap"),
    )
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"{PROTOCOL}://{directory}/warehouse",
        "py-io-impl": FILE_IO,
    }
    log = f"{PROTOCOL}://{directory}/delta"
    delta = LyingSubject(
        "delta on a disk",
        "delta",
        log,
        make_delta_table(directory / "delta", log),
        {"open": "_delta_log", "restore": "_delta_log"},
        lambda lies: {"storage_options": {"lies": lies}},
        {"open": ("flip", "left out")},
        lies=(*LIES, *READING_LIES, "swap"),
    )
    return [files, _iceberg("iceberg on a disk", catalog), delta]


def _iceberg(name: str, catalog: Mapping[str, str]) -> LyingSubject:
    table, files = make_iceberg_table(catalog)
    return LyingSubject(
        name,
        "iceberg",
        table,
        files,
        ICEBERG_STAGES,
        lambda lies: {**catalog, "lies": lies},
        dict.fromkeys(("open", "manifest list", "manifests"), ("flip",)),
        lies=(*LIES, *READING_LIES),
    )


def metastore_subjects(metastore: HiveMetastore, directory: Path) -> list[Subject]:
    """Create Hive tables for which the metastore or the disk is faulty."""
    tree, root = write_tree(directory / "tree"), f"{directory}/tree"
    empty = directory / "empty"
    table = make_hive_table(metastore, "chaos_local", empty, f"file://{root}")
    lying = make_hive_table(metastore, "chaos_lying", empty, f"{PROTOCOL}://{root}")
    alone = ProxiedSubject(
        "hive",
        "hive",
        table,
        below(root, tree),
        {
            "open": "get_table_req",
            "names": "get_partition_names",
            "details": "get_partitions_by_names",
            "restore": ANY,
        },
        lambda address: {"uri": f"thrift://{address}", "partitions_per_request": 3},
        dict.fromkeys(("open", "names", "details"), ("flip",)),
        server=lambda: parse_uris(metastore.uri)[0][:2],
        treatments=STREAM,
    )
    with_another = replace(
        alone,
        name="hive, two metastores",
        options=lambda address: {
            "uri": f"thrift://{address},{metastore.uri}",
            "partitions_per_request": 3,
        },
        unnoticed={},
    )
    on_disk = LyingSubject(
        "hive on a disk",
        "hive",
        lying,
        below(f"{PROTOCOL}://{root}", tree),
        {"files": _LISTED_PARTITION, "restore": _LISTED_PARTITION},
        lambda lies: {"uri": metastore.uri, "storage_options": {"lies": lies}},
        {"files": ("left out",)},
        lies=(*LIES, "swap"),
    )
    return [alone, with_another, on_disk]


def glue_subjects(server: GlueServer, directory: Path) -> list[Subject]:
    """Create a table of Glue with its partitions on the local disk."""
    tree, root = write_tree(directory / "tree"), f"{directory}/tree"
    options = {**server.options, "partitions_per_request": 2}
    table = ProxiedSubject(
        "glue",
        "glue",
        make_glue_table(server, "chaos", f"file://{root}"),
        below(root, tree),
        {"open": "GetTable", "list": "GetPartitions", "restore": ANY},
        lambda address: {**options, "endpoint_url": f"http://{address}"},
        dict.fromkeys(("open", "list"), ("flip",)),
        server=lambda: server.address,
        treatments=HTTP,
    )
    return [table]


def store_subjects(store: ObjectStore, directory: Path) -> list[Subject]:
    """Create a table of Parquet files and an Iceberg table on an object store."""
    root = f"s3://{BUCKET}/files"
    tree = write_tree(directory / "files")
    store.upload(directory / "files")
    files = ProxiedSubject(
        "files on S3",
        "files",
        root,
        below(root, tree),
        {
            "open": "^(GET|HEAD) ",
            "partitions": r"prefix=files%2F(y%3D\d%2F)?&",
            "files": _STORED_PARTITION,
            "restore": ANY,
        },
        lambda address: {
            "partition_schema": KEYS,
            "storage_options": storage_options(address),
        },
        dict.fromkeys(("open", "partitions", "files"), ("flip",)),
        server=lambda: store.address,
        treatments=HTTP,
        keeps_connections=True,
        config=PATIENT,
    )
    directory.mkdir(parents=True, exist_ok=True)
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"s3://{BUCKET}/warehouse",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.region": "us-east-1",
    }
    name, known = make_iceberg_table({**catalog, "s3.endpoint": store.endpoint})
    iceberg = ProxiedSubject(
        "iceberg on S3",
        "iceberg",
        name,
        known,
        ICEBERG_STAGES,
        lambda address: {
            **catalog,
            "s3.endpoint": endpoint_of(address),
            # Cached metadata is found by the catalog's properties. A property that differs in each
            # run avoids metadata that an earlier run cached.
            "run": str(next(_numbers)),
        },
        dict.fromkeys(("open", "manifest list", "manifests"), ("flip",)),
        server=lambda: store.address,
        treatments=HTTP,
        keeps_connections=True,
        config=PATIENT,
    )
    return [files, iceberg]


def hive_on_store(metastore: HiveMetastore, store: ObjectStore, directory: Path) -> list[Subject]:
    """Create a Hive table that has its partitions on an object store."""
    root = f"s3://{BUCKET}/hive"
    tree = write_tree(directory / "hive")
    store.upload(directory / "hive")
    table = make_hive_table(metastore, "stored", directory / "empty", root)
    on_store = ProxiedSubject(
        "hive on S3",
        "hive",
        table,
        below(root, tree),
        {"files": _STORED_PARTITION, "restore": ANY},
        lambda address: {"uri": metastore.uri, "storage_options": storage_options(address)},
        {"files": ("flip",)},
        server=lambda: store.address,
        treatments=HTTP,
        keeps_connections=True,
        config=PATIENT,
    )
    return [on_store]
