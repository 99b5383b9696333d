"""``splitlib.paths``: the files to read, as plain paths for any reader."""

from __future__ import annotations

from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.errors import UnsupportedTable
from splitlib.filtering.data import DynamicFilteringData
from splitlib.table import Table


def paths(
    table: Table, *filters: DynamicFilteringData, config: SplitConfig | None = None
) -> list[str]:
    """Return the files of ``table`` that match ``filters``, each once, in the catalog's order.

    Paths are plain on the local disk and URIs elsewhere. They do not include partition values. A
    reader that needs these uses the splits of a
    :class:`~splitlib.enumeration.enumerator.DynamicFileEnumerator` instead.

    Raises:
        UnsupportedTable: if some rows of a file are deleted, which a path cannot express.
    """
    enumerator = DynamicFileEnumerator(table, config)
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    found: dict[str, None] = {}
    for selected in enumerator.select_files():
        deletes = selected.files.deletes
        if deletes is not None and deletes.null_count < len(deletes):
            raise UnsupportedTable(
                "Some rows of the selected files are deleted, which plain paths cannot express.",
                hint="use splitlib.read(spark), or use the splits and their deletes.",
                connector=table.connector_name,
                table=table.name,
            )
        found.update(dict.fromkeys(selected.files.files["path"].to_pylist()))
    return list(found)
