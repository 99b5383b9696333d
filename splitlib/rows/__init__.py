"""Read a table's rows without Spark, with pyarrow, Polars or DuckDB.

``table`` has the public class, which also lists partitions and files. ``dataset`` creates a
``pyarrow.dataset.Dataset`` of the matching files, and passes it to Polars and DuckDB. Arrow reads
most files directly. ``converted`` reads the files that Arrow would read differently from Spark. It
also converts filters to a condition on rows, which the dataset applies. ``calls`` stops Arrow's
threads when the program ends.
"""
