"""Equality deletes, written with Iceberg's Java API, because Spark's SQL never writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from tests.interop.reference.lake import CATALOG, SCRATCH, Lake

_serial = count(1)


def upsert(
    lake: Lake,
    *,
    delete: str = "",
    on: Sequence[str] = (),
    insert: str = "",
    spec_id: int | None = None,
    partition: Sequence[Any] = (),
) -> None:
    """Delete rows by value and insert rows, in one commit. The deletes do not apply to new rows.

    Args:
        lake: The table.
        delete: ``VALUES`` list with the values to delete from the columns ``on``.
        on: Names of the columns that the deletes compare.
        insert: ``VALUES`` list of new rows, with all columns.
        spec_id: Id of the partition spec of the new files. None means the current spec.
        partition: Values of the new files' partition, one for each field of the spec.
    """
    table = lake.load()
    spec = table.spec() if spec_id is None else table.specs().get(spec_id)
    place = _partition(lake, spec, partition) if spec.isPartitioned() else None
    writers = _writers(lake, table, on)
    iceberg = lake.java.org.apache.iceberg
    files = iceberg.io.OutputFileFactory.builderFor(table, 0, next(_serial)).build()

    def written(new_writer: Any, values: str, columns: Sequence[str]) -> Any:
        file = files.newOutputFile(spec, place) if place else files.newOutputFile()
        writer = new_writer(file, spec, place)
        for record in _records(lake, values, columns):
            writer.write(record)
        writer.close()
        return writer

    change = table.newRowDelta()
    if delete:
        change.addDeletes(written(writers.newEqualityDeleteWriter, delete, on).toDeleteFile())
    if insert:
        columns = lake.spark.table(lake.name).columns
        change.addRows(written(writers.newDataWriter, insert, columns).toDataFile())
    change.commit()


def _writers(lake: Lake, table: Any, on: Sequence[str]) -> Any:
    fields = lake.java.java.util.ArrayList()
    gateway: Any = lake.spark.sparkContext._gateway
    ids = gateway.new_array(lake.java.int, len(on))
    for i, name in enumerate(on):
        field = table.schema().findField(name)
        fields.add(field)
        ids[i] = field.fieldId()
    iceberg = lake.java.org.apache.iceberg
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    return builder.equalityFieldIds(ids).equalityDeleteRowSchema(iceberg.Schema(fields)).build()


def _partition(lake: Lake, spec: Any, values: Sequence[Any]) -> Any:
    kind = spec.partitionType()
    place = lake.java.org.apache.iceberg.PartitionData(kind)
    for i, (field, value) in enumerate(zip(kind.fields(), values, strict=True)):
        place.set(i, None if value is None else lake.literal(value).to(field.type()).value())
    return place


def _records(lake: Lake, values: str, columns: Sequence[str]) -> Iterator[Any]:
    """Return rows as ``org.apache.iceberg.data.Record``.

    The rows are written to a scratch table and read again in Java. Values that pass through Python
    would lose their type: a small long becomes an int.
    """
    schema = lake.spark.table(lake.name).schema
    casts = (f"CAST({column} AS {schema[column].dataType.simpleString()})" for column in columns)
    scratch = f"{CATALOG}.{SCRATCH}.rows{next(_serial)}"
    lake.spark.sql(
        f"CREATE TABLE {scratch} USING iceberg AS "
        f"SELECT {', '.join(casts)} FROM VALUES {values} AS v({', '.join(columns)})"
    )
    reader = lake.java.org.apache.iceberg.data.IcebergGenerics.read(lake.load(scratch))
    yield from reader.build().iterator()
