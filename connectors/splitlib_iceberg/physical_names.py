"""Find the names of a table's columns in a data file, for readers that match columns by name.

A file written by Iceberg contains the field ids of its columns. A file in a migrated table may not
have field ids. Then the table's name mapping maps the file's column names to field ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table.name_mapping import MappedField, NameMapping

from splitlib.arrow import parquet_footer
from splitlib.errors import UnsupportedTable, decoding
from splitlib_iceberg import metadata_cache
from splitlib_iceberg.failures import reading

# In a name mapping, the children of lists and maps always have these names. Data files may use
# other names.
_ELEMENT, _KEY, _VALUE = "element", "key", "value"
_NAME_BYTES = 200


class PhysicalNames:
    """Reads the column names of one table's data files, and caches them. Thread-safe.

    Args:
        files: The table's FileIO.
        mapping: The table's name mapping, or None if the table has none.
    """

    def __init__(self, files: FileIO, mapping: NameMapping | None) -> None:
        self._files = files
        self._mapping = mapping
        self._key = (
            metadata_cache.identity_of(files),
            None if mapping is None else mapping.model_dump_json(),
        )

    def of(self, path: str) -> tuple[bool, dict[int, str]]:
        """Return whether a file has field ids, and a dict of its column names by field id.

        Raises:
            UnsupportedTable: if the file has no field ids, and the table has no name mapping.
            MissingFile: if the file does not exist.
        """
        key = (*self._key, path)
        known: tuple[bool, dict[int, str]] | None = metadata_cache.shared.get(key)
        if known is None:
            known = self._read(path)
            metadata_cache.shared.put(key, known, _NAME_BYTES * (1 + len(known[1])))
        return known

    def _read(self, path: str) -> tuple[bool, dict[int, str]]:
        what = "data file"
        with (
            reading(what, path),
            self._files.new_input(path).open() as stream,
            decoding(f"The {what} {path}"),
        ):
            schema = parquet_footer.read_schema(stream)
        own = parquet_footer.names_by_id(schema)
        if own:
            return True, own
        if self._mapping is None:
            raise UnsupportedTable(
                f"Data file {path} has no field ids, and the table has no name mapping.",
                hint="set the table's property schema.name-mapping.default.",
            )
        return False, dict(_mapped(((f.name, f) for f in schema), self._mapping.root))


def _mapped(
    children: Iterable[tuple[str, pa.Field]], mapping: Sequence[MappedField]
) -> Iterator[tuple[int, str]]:
    by_name = {name: mapped for mapped in mapping for name in mapped.names}
    for name, field in children:
        mapped = by_name.get(name)
        if mapped is None:
            continue
        if mapped.field_id is not None:
            yield mapped.field_id, field.name
        yield from _mapped(_children(field.type), mapped.fields)


def _children(kind: pa.DataType) -> Iterator[tuple[str, pa.Field]]:
    """Yield a type's nested fields, each with its name in name mappings."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield field.name, field
    elif pa.types.is_map(kind):
        yield _KEY, kind.key_field
        yield _VALUE, kind.item_field
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield _ELEMENT, kind.value_field
