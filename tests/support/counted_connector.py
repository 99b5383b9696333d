"""A connector that records in a file how often tables are opened and closed, in all processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import splitlib
from splitlib_files import FilesConnector


class Opens:
    """The recorded opens and closes of a table.

    The connector ignores the table name, so the table can have any name that SQL accepts.

    Args:
        root: Directory of the table.
        notes: File that records the calls.
    """

    def __init__(self, root: Path, notes: Path) -> None:
        self.root, self.notes = root, notes
        notes.touch()

    def connector(self) -> type[FilesConnector]:
        """Return the connector class.

        A class defined in a function is pickled by value, so it reaches Spark's Python workers.
        """
        root, notes = str(self.root), str(self.notes)

        def note(what: str) -> None:
            with open(notes, "a") as file:
                file.write(f"{what}\n")

        class Counted(FilesConnector):
            @classmethod
            def open(cls, name, options):
                opened = super().open(root, {"partition_schema": "k int", **options})
                note("open")
                return opened

            def close(self):
                super().close()
                note("close")

        return Counted

    def data_source(self) -> type[splitlib.SplitlibDataSource]:
        """Return the data source ``counted``.

        It registers the connector in every process that unpickles it.
        """
        connector = self.connector()

        class CountedSource(splitlib.SplitlibDataSource):
            @classmethod
            def name(cls):
                return "counted"

            def __init__(self, options):
                splitlib.register("counted", connector)
                super().__init__({"connector": "counted", **options})

            def __setstate__(self, state):
                splitlib.register("counted", connector)
                self.__dict__.update(state)

        return CountedSource

    def taken(self) -> int:
        """Return how often the table was opened since the last call of this method.

        Assert that the table was closed as often.
        """
        noted = Counter(self.notes.read_text().splitlines())
        self.notes.write_text("")
        assert noted["open"] == noted["close"], noted
        return noted["open"]
