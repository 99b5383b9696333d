"""Read the rows of splits as Arrow batches, without Spark, with the same result as Spark.

``reader`` opens a file and passes it to ``parquet`` or ``orc``; ``row_groups`` skips row groups of
Parquet files without join keys, and ``columns`` converts stored columns to the table's types.
"""
