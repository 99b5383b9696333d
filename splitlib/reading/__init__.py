"""Read the rows of splits as Arrow batches, without Spark, with the same result as Spark.

``reader`` opens a file. ``formats`` reads Parquet and ORC, and skips row groups of Parquet files
that cannot contain a join key. ``columns`` converts stored columns to the table's types.
"""
