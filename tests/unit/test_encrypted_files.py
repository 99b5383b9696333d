"""Parquet files with encrypted columns and a signed footer do not end the process.

Arrow parses such a footer, and calls ``std::terminate`` when a column's statistics are accessed.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData
from splitlib.enumeration.analyze import analyze_table
from splitlib.errors import SourceError
from splitlib.reading.reader import read_split

SCHEMA = pa.schema([("item", pa.int64()), ("name", pa.string())])
KEYS = {"footer": "0123456789012345", "column": "1234567890123450"}


class Keys(pe.KmsClient):  # type: ignore[misc] # pyarrow has no types
    """Prepends the master key to the wrapped key."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self._keys = config.custom_kms_conf

    def wrap_key(self, key: bytes, master: str) -> bytes:
        return base64.b64encode(self._keys[master].encode() + key)

    def unwrap_key(self, wrapped: bytes, master: str) -> bytes:
        return base64.b64decode(wrapped)[len(self._keys[master]) :]


@pytest.fixture(params=["signed", "encrypted"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> splitlib.Table:
    """Return a table with one encrypted file. Its footer is only signed, or encrypted, too."""
    encryption = pe.EncryptionConfiguration(
        footer_key="footer",
        column_keys={"column": ["item"]},
        plaintext_footer=request.param == "signed",
    )
    properties = pe.CryptoFactory(Keys).file_encryption_properties(
        pe.KmsConnectionConfig(custom_kms_conf=KEYS), encryption
    )
    (tmp_path / "t").mkdir()
    with pq.ParquetWriter(
        tmp_path / "t" / "f.parquet", SCHEMA, encryption_properties=properties
    ) as writer:
        writer.write_table(pa.table({"item": [1, 2], "name": ["a", "b"]}))
    return splitlib.load_table(str(tmp_path / "t"), connector="files", schema=SCHEMA)


@pytest.mark.parametrize("table", ["encrypted"], indirect=True)
def test_its_columns_cannot_be_read(table: splitlib.Table) -> None:
    with pytest.raises(
        SourceError, match=r"f\.parquet.*encrypted.*Hint: .*read the rows with Spark"
    ):
        splitlib.load_table(str(table.metadata.location), "files")


def test_its_files_are_kept(table: splitlib.Table) -> None:
    enumerator = DynamicFileEnumerator(table)
    enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_values({"item": [7]}))
    (split,) = enumerator.enumerate_splits()
    assert split.path.endswith("f.parquet")
    assert enumerator.metrics.footers_read == 1
    with pytest.raises(splitlib.UnsupportedTable, match="None of 1 footers could be read"):
        analyze_table(table)


def test_reading_raises(table: splitlib.Table) -> None:
    (split,) = DynamicFileEnumerator(table).enumerate_splits()
    with pytest.raises(SourceError, match="encrypted"):
        list(read_split(split, SCHEMA))
    with pytest.raises(SourceError, match="encrypted"):
        table.to_arrow_dataset(DynamicFilteringData.from_values({"item": [1]}))
