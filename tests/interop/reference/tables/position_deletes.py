"""Tables with rows deleted by position.

Format version 2 has position delete files, and version 3 has deletion vectors.
"""

from __future__ import annotations

from tests.interop.reference.lake import Lake
from tests.interop.reference.recipe import recipe

# Writers before Iceberg 1.7 created one delete file for all data files of a partition.
_BY_PARTITION = {"write.delete.granularity": "partition"}


def _thirds(first: int, last: int) -> str:
    """Return a query for rows with ids from ``first`` to below ``last``, in three partitions."""
    return f"SELECT id, CAST(id % 3 AS INT), concat('v', id) FROM range({first}, {last})"


@recipe("p", "id", ("p", "id"), formats=(2, 3))
def deleted_positions(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", "p", properties=_BY_PARTITION)
    lake.insert(_thirds(0, 30), _thirds(30, 60), _thirds(60, 90))
    lake.sql(
        "DELETE FROM {t} WHERE id % 7 = 0",
        "DELETE FROM {t} WHERE p = 1 AND id % 5 = 0",
    )
    # Insert the deleted rows again. The earlier deletes do not apply to newer files.
    lake.insert("SELECT id, CAST(id % 3 AS INT), 'again' FROM range(0, 90, 7)")
    lake.sql("DELETE FROM {t} WHERE s = 'again' AND id % 2 = 0")
    lake.insert("(1000, NULL, 'null partition'), (1001, NULL, 'also'), (1002, 0, NULL)")
    lake.sql("DELETE FROM {t} WHERE id = 1001")


@recipe("id", formats=(2, 3))
def deleted_positions_by_file(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", properties={"write.delete.granularity": "file"})
    lake.insert(_thirds(0, 20), _thirds(20, 40), _thirds(40, 60))
    lake.sql("DELETE FROM {t} WHERE id % 4 = 1", "DELETE FROM {t} WHERE id BETWEEN 35 AND 45")


@recipe("id", formats=(2, 3))
def deleted_positions_unpartitioned(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", properties=_BY_PARTITION)
    lake.insert(_thirds(0, 20), _thirds(20, 40), _thirds(40, 60))
    lake.sql(
        "DELETE FROM {t} WHERE id % 4 = 1",
        "DELETE FROM {t} WHERE id % 4 = 2 AND id > 10",
        "DELETE FROM {t} WHERE id % 3 = 0",
    )


@recipe("id", formats=(2, 3))
def deleted_across_row_groups(lake: Lake) -> None:
    """Positions are counted over all row groups of a file, even if a filter skips some of them."""
    lake.create(
        "id BIGINT, s STRING",
        properties={
            "write.parquet.row-group-size-bytes": "4096",
            "write.parquet.row-group-check-min-record-count": "50",
            "write.parquet.row-group-check-max-record-count": "50",
        },
    )
    lake.insert(
        "SELECT /*+ COALESCE(1) */ id, repeat(sha2(CAST(id AS STRING), 256), 2) FROM range(4000)"
    )
    lake.sql("DELETE FROM {t} WHERE id % 11 = 3")


@recipe("p", "id", formats=(2, 3))
def updated_and_merged(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", "p")
    lake.insert(_thirds(0, 30))
    lake.sql(
        "UPDATE {t} SET s = 'updated' WHERE id % 5 = 0",
        # An update of the partition key moves rows to another partition.
        "UPDATE {t} SET p = p + 1 WHERE id IN (3, 6, 9)",
        """MERGE INTO {t} USING (SELECT explode(sequence(25L, 35L)) AS id) AS m ON {t}.id = m.id
           WHEN MATCHED AND m.id % 2 = 0 THEN DELETE
           WHEN MATCHED THEN UPDATE SET s = 'merged'
           WHEN NOT MATCHED THEN INSERT (id, p, s) VALUES (m.id, 7, 'inserted')""",
    )


@recipe("p", "id", formats=(2, 3))
def rewritten_after_deletes(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", "p", properties=_BY_PARTITION)
    lake.insert(_thirds(0, 30), _thirds(30, 60))
    lake.sql("DELETE FROM {t} WHERE id % 4 = 0")
    lake.call("rewrite_data_files", "where => 'p = 1', options => map('rewrite-all', 'true')")
    lake.sql("DELETE FROM {t} WHERE id % 4 = 1")
    lake.call("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")
    lake.insert(_thirds(0, 9))


@recipe("p", "id", formats=(2, 3))
def a_file_without_rows_left(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", "p", properties=_BY_PARTITION)
    lake.insert(_thirds(0, 9), _thirds(9, 18))
    # Iceberg cannot decide this condition from statistics. So it deletes each row of the file, and
    # does not remove the file.
    lake.sql("DELETE FROM {t} WHERE id % 3 = 2 AND id < 9")


@recipe("p", "id")
def upgraded_to_deletion_vectors(lake: Lake) -> None:
    """Position delete files from format version 2 stay valid after an upgrade to version 3.

    A deletion vector for a data file replaces all position deletes for that file.
    """
    lake.create("id BIGINT, p INT, s STRING", "p", properties=_BY_PARTITION)
    lake.insert(_thirds(0, 30), _thirds(30, 60))
    lake.sql("DELETE FROM {t} WHERE id % 7 = 0")
    lake.alter("SET TBLPROPERTIES ('format-version' = '3')")
    lake.sql("DELETE FROM {t} WHERE p = 1 AND id % 5 = 0")
    lake.insert(_thirds(60, 90))
    lake.sql("DELETE FROM {t} WHERE p = 1 AND id % 11 = 0")


@recipe("p", "id", formats=(1,))
def upgraded_and_deleted(lake: Lake) -> None:
    """Files of format version 1 have no sequence number."""
    lake.create("id BIGINT, p INT, s STRING", "p")
    lake.insert(_thirds(0, 30), _thirds(30, 60))
    lake.alter("SET TBLPROPERTIES ('format-version' = '2')")
    lake.sql("DELETE FROM {t} WHERE id % 7 = 0")
    lake.insert(_thirds(0, 12))


@recipe(refused="[Dd]elete file .* has format avro")
def deletes_in_avro(lake: Lake) -> None:
    lake.create(
        "id BIGINT, p INT, s STRING", "p", properties={"write.delete.format.default": "avro"}
    )
    lake.insert(_thirds(0, 30))
    lake.sql("DELETE FROM {t} WHERE id % 7 = 0")


@recipe(formats=(2, 3), refused="has format (orc|avro)")
def orc_and_avro_files(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", "p", properties={"write.format.default": "orc"})
    lake.insert(_thirds(0, 30))
    lake.alter("SET TBLPROPERTIES ('write.format.default' = 'avro')")
    lake.insert(_thirds(30, 60))
    lake.alter("SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    lake.insert(_thirds(60, 90))
    lake.sql("DELETE FROM {t} WHERE id % 7 = 0")
    lake.alter("RENAME COLUMN s TO text")


@recipe(refused="has format orc")
def only_orc_files(lake: Lake) -> None:
    lake.create("id BIGINT, p INT, s STRING", "p", properties={"write.format.default": "orc"})
    lake.insert(_thirds(0, 30), _thirds(30, 60))
    lake.alter("RENAME COLUMN s TO text", "ADD COLUMN s DATE")
    lake.insert("(100, 1, 'x', DATE'2020-02-29'), (101, 0, NULL, NULL)")
