"""Write entries of Delta's log and deletion vectors by hand, without the connector's code."""

from __future__ import annotations

import base64
import json
import math
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def commit(root: Path, entries: Iterable[Mapping[str, Any]]) -> int:
    """Add a commit to the log. Return its version."""
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = len(list(log.glob("*.json")))
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (log / f"{version:020}.json").write_text(lines)
    return version


def protocol(*features: str) -> dict[str, Any]:
    """Return a protocol with reader features."""
    known = {"readerFeatures": features, "writerFeatures": features} if features else {}
    versions = (3, 7) if features else (1, 2)
    names = ("minReaderVersion", "minWriterVersion")
    return {"protocol": {**dict(zip(names, versions, strict=True)), **known}}


def metadata(
    fields: Sequence[Mapping[str, Any]], keys: Sequence[str] = (), **configuration: str
) -> dict[str, Any]:
    """Return the metadata of a table."""
    schema = {"type": "struct", "fields": list(fields)}
    return {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": list(keys),
            "configuration": configuration,
        }
    }


def field(name: str, kind: Any, **properties: Any) -> dict[str, Any]:
    """Return a column of a schema."""
    return {"name": name, "type": kind, "nullable": True, "metadata": properties}


def add(path: str, **more: Any) -> dict[str, Any]:
    """Return the entry of a new file."""
    given = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    return {"add": {"path": path, **given, **more}}


def remove(path: str, **more: Any) -> dict[str, Any]:
    """Return the entry of a removed file."""
    return {"remove": {"path": path, "deletionTimestamp": 0, "dataChange": True, **more}}


def z85(data: bytes) -> str:
    """Encode bytes as ZeroMQ does."""
    return base64.b85encode(data).decode().translate(str.maketrans(B85, Z85))


def bitmap(positions: Sequence[int]) -> bytes:
    """Return magic bytes and bitmap of a deletion vector."""
    return (1681511377).to_bytes(4, "little") + BitMap64(positions).serialize()


def inline_vector(positions: Sequence[int]) -> dict[str, Any]:
    """Return a deletion vector that is stored in the log."""
    data = bitmap(positions)
    padded = data + bytes(-len(data) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85(padded),
        "sizeInBytes": len(data),
        "cardinality": len(positions),
    }


def stored_vector(
    root: Path, positions: Sequence[int], *, prefix: str = "", is_absolute: bool = False
) -> dict[str, Any]:
    """Write a deletion vector to a file, behind another one, and return its entry."""
    name = uuid.uuid4()
    frames = [_frame([7]), _frame(positions)]
    path = root / prefix / f"deletion_vector_{name}.bin"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\x01" + b"".join(frames))
    return {
        "storageType": "p" if is_absolute else "u",
        "pathOrInlineDv": path.as_uri() if is_absolute else prefix + z85(name.bytes),
        "offset": 1 + len(frames[0]),
        "sizeInBytes": len(bitmap(positions)),
        "cardinality": len(positions),
    }


def _frame(positions: Sequence[int]) -> bytes:
    body = bitmap(positions)
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def statistics(rows: pa.Table) -> str:
    """Return the statistics of a file, as Delta's Spark writer cuts and formats them."""
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in rows.column_names:
        values = [value for value in rows[name].to_pylist() if value is not None]
        found["nullCount"][name] = len(rows) - len(values)
        if not values or isinstance(values[0], (bool, bytes)):
            continue
        numbers = [value for value in values if not _is_nan(value)]
        has_nan = len(numbers) < len(values)
        found["minValues"][name] = _json_value(min(numbers, default=math.nan), lower=True)
        found["maxValues"][name] = "NaN" if has_nan else _json_value(max(numbers), lower=False)
    return json.dumps({"numRecords": len(rows), **found})


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _json_value(value: Any, *, lower: bool) -> Any:
    match value:
        case str() if len(value) > 32:
            return value[:32] if lower else value[:32] + "\ufffd"
        case datetime():
            zone = "Z" if value.tzinfo else ""
            return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone
        case date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case float() if not math.isfinite(value):
            return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)]
    return value
