"""Reading tables whose columns are found by field id and whose rows may be deleted, as Iceberg's.

``scan`` makes one DataFrame of the selected files, ``reader`` reads some files in the way that the
session can, ``columns`` turns what is read into the table's columns, ``deletes`` takes rows out.
"""
