"""Find columns in a file by field id, so that renamed columns are read right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from splitlib.errors import UnsupportedTable
from splitlib.model import FIELD_ID, INITIAL_DEFAULT
from splitlib.reading.columns import NATIVE


class ByFieldId:
    """Finds columns by field id. An instance is a :data:`splitlib.reading.columns.Find`.

    Args:
        names: Name in the file of each field id, for files without field ids; None if the file
            has field ids.
    """

    def __init__(self, names: Mapping[int, str] | None = None) -> None:
        self._names = names

    def __call__(self, stored: pa.Schema, wanted: Sequence[pa.Field]) -> dict[str, str]:
        """Return the name in the file of each column; columns that the file lacks are left out.

        Raises:
            UnsupportedTable: if the file has no field ids, or if fields inside of a column have
                other names than in the table.
        """
        if self._names is None and len(stored) and all(_id(field) is None for field in stored):
            raise UnsupportedTable("The file has no field ids.", hint=NATIVE)
        found = {}
        for field in wanted:
            column = self._stored(stored, field)
            if column is not None:
                if stored.names.count(column.name) > 1:
                    raise UnsupportedTable(
                        f"The file has column {column.name!r} more than once.", hint=NATIVE
                    )
                self._refuse_renamed(column, field)
                found[field.name] = column.name
        return found

    def _stored(self, stored: Iterable[pa.Field], field: pa.Field) -> pa.Field | None:
        """Return the field of the file with the same id; None if the file does not have it."""
        identifier = _id(field)
        if identifier is None:
            raise UnsupportedTable(f"Column {field.name!r} has no field id.", hint=NATIVE)
        if self._names is None:
            same = [other for other in stored if _id(other) == identifier]
        else:
            same = [other for other in stored if other.name == self._names.get(identifier)]
        if len(same) > 1:
            raise UnsupportedTable(f"The file has field id {identifier} twice.", hint=NATIVE)
        return same[0] if same else None

    def _refuse_renamed(self, stored: pa.Field, field: pa.Field) -> None:
        """Reject a column if reading the fields inside of it by name would be wrong."""
        inside, wanted = _children(stored.type), _children(field.type)
        if not pa.types.is_struct(field.type):
            for one, other in zip(inside, wanted, strict=False):
                self._refuse_renamed(one, other)
            return
        names = {child.name.lower() for child in inside}
        for child in wanted:
            found = self._stored(inside, child)
            if found is None:
                renamed = child.name.lower() in names or INITIAL_DEFAULT in (child.metadata or {})
            else:
                renamed = found.name != child.name
                self._refuse_renamed(found, child)
            if renamed:
                raise UnsupportedTable(
                    f"Field {child.name!r} in column {field.name!r} is another one in the file.",
                    hint=NATIVE,
                )


def _id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def _children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(i) for i in range(kind.num_fields)]
