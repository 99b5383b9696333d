"""Learned statistics: bounds of data columns in row groups, read from the footers of Parquet files.

Catalogs such as Iceberg have statistics of files. For all other tables, this package decodes
footers, and keeps the result for files that have not changed. ``footers`` decodes them,
``row_groups`` holds the bounds, ``store`` keeps them in memory, and ``known`` also on disk.
"""
