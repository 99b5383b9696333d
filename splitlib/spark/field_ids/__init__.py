"""Read tables whose columns are found by field id, and which may have delete files (Iceberg).

``columns`` reads a batch of files, and converts its columns to the table's types. ``scan`` builds
one DataFrame from the selected files, and removes deleted rows.
"""
