"""The rows of a table without Spark, for pyarrow, Polars and DuckDB.

``table`` has the public class, with its partitions and files. ``dataset`` makes a
``pyarrow.dataset.Dataset`` of the matching files, and passes it to Polars and DuckDB. Arrow reads
most files directly. ``converted`` reads those that Arrow would read differently from Spark.
``conditions`` turns filters into a condition on rows, which the dataset applies.
"""
