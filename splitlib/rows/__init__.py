"""The rows of a table without Spark, for pyarrow, Polars and DuckDB.

``table`` has the public class, with its partitions and files. ``dataset`` makes a
``pyarrow.dataset.Dataset`` of the matching files. Arrow reads most of them directly. ``converted``
reads the files that Arrow would read differently from Spark. ``conditions`` turns filters into a
condition on rows, which the dataset applies. ``engines`` passes the dataset to Polars and DuckDB.
"""
