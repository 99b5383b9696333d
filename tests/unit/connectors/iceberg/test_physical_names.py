"""Column names in data files without field ids."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

import splitlib
from splitlib.spi import SupportsPhysicalNames
from splitlib_iceberg import batches
from splitlib_iceberg.delete_index import partition_key
from tests.support.iceberg_tables import (
    add_deletes,
    append,
    create,
    data_file,
    delete_file,
    open_table,
    paths_of,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE, Keys, deletes_by_path

MAPPING = (
    '[{"field-id": 1, "names": ["d"]}, {"field-id": 2, "names": ["c", "old_c"]},'
    ' {"field-id": 3, "names": ["s"], "fields": ['
    '   {"field-id": 4, "names": ["x"]}, {"field-id": 5, "names": ["l"], "fields": ['
    '     {"field-id": 6, "names": ["element"], "fields": [{"field-id": 7, "names": ["y"]}]}]},'
    '   {"field-id": 8, "names": ["m"], "fields": ['
    '     {"field-id": 9, "names": ["key"]}, {"field-id": 10, "names": ["value"]}]}]}]'
)


def real_file(table, name, columns, row):
    """Write a Parquet file, and return its entry for the table's metadata."""
    path = f"{table.location()}/{name}.parquet"
    pq.write_table(columns, path.removeprefix("file://"))
    return data_file(table, [row], file_path=path)


def identified(name, kind, identifier):
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(identifier).encode()})


def write_three(table):
    with_ids = pa.schema([identified("renamed since", pa.int64(), 2)])
    nested = pa.struct(
        [
            ("x", pa.int32()),
            ("l", pa.list_(pa.struct([("y", pa.int32()), ("unknown", pa.int32())]))),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    return [
        real_file(table, "ids", pa.table([[1]], schema=with_ids), {"d": 1, "c": 1}),
        real_file(table, "old", pa.table({"old_c": [2], "unknown": [0]}), {"d": 1, "c": 2}),
        real_file(
            table, "nested", pa.table({"s": pa.nulls(1, nested), "c": [3]}), {"d": 1, "c": 3}
        ),
    ]


def formats(batches):
    return {
        path.rpartition("/")[2].removesuffix(".parquet"): batch.read_format.columns
        for batch in batches
        for path in batch.files["path"].to_pylist()
    }


OLD = ((2, "old_c"),)
NESTED = (
    (2, "c"), (3, "s"), (4, "x"), (5, "l"), (6, "element"), (7, "y"), (8, "m"), (9, "key"),
    (10, "value"),
)  # fmt: skip


def test_files_without_identifiers_go_through_the_name_mapping(catalog):
    table = create(catalog, SIMPLE, BY_D, {"schema.name-mapping.default": MAPPING})
    append(table, write_three(table))
    opened = open_table(catalog, table)
    # Each call opens the files of its partitions, so it gets fewer of them.
    plain = open_table(catalog, create(catalog, SIMPLE, BY_D))
    assert 1 < opened.partitions_per_listing < plain.partitions_per_listing
    enumerator = splitlib.DynamicFileEnumerator(opened)
    found = formats(selected.files for selected in enumerator.select_files())
    assert found == {"ids": "id", "old": OLD, "nested": NESTED}


def test_no_file_is_opened_that_statistics_rule_out(catalog):
    table = create(catalog, SIMPLE, BY_D, {"schema.name-mapping.default": MAPPING})
    files = write_three(table)
    gone = data_file(table, [{"d": 1, "c": 9}])
    append(table, [*files, gone])
    opened = open_table(catalog, table)
    found, _ = deletes_by_path(opened, Keys.from_values({"c": [2]}))
    assert list(found) == paths_of(files[1:2])
    with pytest.raises(splitlib.MissingFile, match="data file"):
        deletes_by_path(opened, Keys.from_values({"c": [9]}))


def test_deletes_compare_each_partition_once(catalog, monkeypatch):
    """Each call for files gets few partitions, because it opens the files."""
    table = create(catalog, SIMPLE, BY_D, {"schema.name-mapping.default": MAPPING})
    numbers = range(2 * open_table(catalog, table).partitions_per_listing)
    append(table, [real_file(table, str(d), pa.table({"c": [d]}), {"d": d}) for d in numbers])
    add_deletes(table, delete_file(table, Record(1), DataFileContent.POSITION_DELETES))
    compared = list[int]()

    def noted(spec, row):
        compared.extend(row)
        return partition_key(spec, row)

    monkeypatch.setattr(batches, "partition_key", noted)
    found, _ = deletes_by_path(open_table(catalog, table))
    assert sorted(compared) == list(numbers)
    assert sum(map(len, found.values())) == 1


def test_statistics_under_names_that_changed_are_not_used(catalog):
    """A file without field ids is read by names, and its statistics are of other columns then."""
    table = create(catalog, SIMPLE, BY_D, {"schema.name-mapping.default": MAPPING})
    files = write_three(table)
    append(table, files)
    with table.update_schema() as update:
        update.rename_column("c", "new")
    with table.update_schema() as update:
        update.add_column("C", LongType())
        update.add_column("e", LongType())
    more = real_file(table, "more", pa.table({"C": [5], "e": [7]}), {"d": 1, "C": 5, "e": 7})
    append(table, [more])
    opened = open_table(catalog, table)
    every = sorted(paths_of([*files, more]))
    for name, expected in (("new", every), ("c", every), ("e", sorted(paths_of(files)))):
        found, _ = deletes_by_path(opened, Keys.from_values({name: [8]}))
        assert sorted(found) == expected, name


@pytest.mark.parametrize("mapping", [MAPPING, None])
def test_physical_names_on_demand(catalog, mapping):
    """Readers that cannot match columns by field id can request each file's column names."""
    properties = {} if mapping is None else {"schema.name-mapping.default": mapping}
    table = create(catalog, SIMPLE, BY_D, properties)
    append(table, write_three(table))
    opened = open_table(catalog, table)
    connector = opened.connector
    assert isinstance(connector, SupportsPhysicalNames)
    (selected, *more) = splitlib.DynamicFileEnumerator(opened).select_files()
    every = [s.files for s in (selected, *more)]
    if mapping is None:
        with pytest.raises(splitlib.UnsupportedTable, match="no name mapping"):
            list(connector.with_physical_names(every[0]))
        return
    found = formats(b for batch in every for b in connector.with_physical_names(batch))
    assert found == {"ids": ((2, "renamed since"),), "old": OLD, "nested": NESTED}


def test_a_damaged_data_file_is_named(catalog):
    table = create(catalog, SIMPLE, BY_D, {"schema.name-mapping.default": MAPPING})
    file = real_file(table, "bad", pa.table({"c": [1]}), {"d": 1, "c": 1})
    append(table, [file])
    (path,) = paths_of([file])
    with open(path, "r+b") as opened:
        opened.truncate(20)
    with pytest.raises(splitlib.CorruptMetadata, match=r"bad\.parquet"):
        deletes_by_path(open_table(catalog, table))
