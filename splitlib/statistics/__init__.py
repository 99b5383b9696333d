"""Learned statistics: bounds of data columns per row group, read from Parquet file footers.

Catalogs such as Iceberg have file statistics. For all other tables, this package decodes footers,
and keeps the bounds until the files change. ``footers`` decodes the bounds, ``row_groups`` matches
them with filters, ``store`` keeps them in memory, and ``known`` also saves them to files.
``orc_types`` reads the column types of ORC files, which have no bounds here.
"""
