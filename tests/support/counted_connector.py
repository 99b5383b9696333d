"""A table of files whose opens and closes are noted in a file, by whichever process makes them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import splitlib
from splitlib_files import FilesConnector


class Opens:
    """What was noted. A table is found by any name, so that it may be one of SQL.

    Args:
        root: The table's directory.
        notes: The file for the notes.
    """

    def __init__(self, root: Path, notes: Path) -> None:
        self.root, self.notes = root, notes
        notes.touch()

    def connector(self) -> type[FilesConnector]:
        """The connector. Made here, it is pickled as a whole, and so reaches Spark's workers."""
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
        """The data source ``counted``, which knows the connector in every process."""
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
        """How often the table was opened since this was asked last; each time it was closed."""
        noted = Counter(self.notes.read_text().splitlines())
        self.notes.write_text("")
        assert noted["open"] == noted["close"], noted
        return noted["open"]
