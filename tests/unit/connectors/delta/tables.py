"""Open tables whose logs the tests write by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData, FileSplit, SplitConfig, Table
from tests.support.delta_log import add, commit, field, metadata, protocol

MAPPED = {"delta.columnMapping.mode": "name"}


def opened(root: Path, **options: Any) -> Table:
    return splitlib.load_table(str(root), connector="delta", config=SplitConfig(), **options)


def splits(
    root: Path, wanted: dict[str, list[Any]] | None = None, **options: Any
) -> list[FileSplit]:
    with opened(root, **options) as table:
        enumerator = DynamicFileEnumerator(table, SplitConfig())
        if wanted:
            fields = [table.metadata.filter_schema.field(name) for name in wanted]
            data = pa.table([pa.array(wanted[f.name], f.type) for f in fields], names=list(wanted))
            enumerator.set_dynamic_filtering_data(
                DynamicFilteringData.from_arrow(data, fields=list(wanted))
            )
        return list(enumerator.enumerate_splits())


def names(found: list[FileSplit]) -> list[str]:
    return sorted(Path(split.path).name for split in found)


def simple(
    root: Path, *entries: dict[str, Any], kind: Any = "long", keys: tuple[str, ...] = ()
) -> None:
    commit(
        root, [protocol(), metadata([field("c", kind), *(field(k, "string") for k in keys)], keys)]
    )
    commit(root, list(entries))


def bounded(path: str, lower: Any, upper: Any, **more: Any) -> dict[str, Any]:
    known = {"minValues": {"c": lower}, "maxValues": {"c": upper}, "nullCount": {"c": 0}}
    return add(path, stats=json.dumps({"numRecords": 3, **known}), **more)
