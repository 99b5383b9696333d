"""Read tables whose columns are found by field id and may have delete files, such as Iceberg's.

``scan`` builds one DataFrame from the selected files. ``reader`` reads a batch of files.
``columns`` converts the columns read to the table's types. ``deletes`` removes deleted rows.
"""
