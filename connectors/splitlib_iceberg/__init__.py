"""Iceberg tables of any catalog that PyIceberg knows, planned from their manifests.

The modules, in the order in which a query comes to them:

1. ``connector``: what the engine calls; each step is in one of the others.
2. ``pinning``, ``sql_catalog``: which table of which catalog, and which snapshot of it;
   ``guarded_io`` opens nothing outside of ``allowed_locations`` meanwhile.
3. ``schema``, ``partition_specs``, ``transforms``, ``bounds``: what columns, partition values and
   stored bounds mean, as Arrow.
4. ``snapshot``: the manifest list, the manifests that may match, and what those hold. They are
   decoded by ``manifests`` and ``avro``, checked by ``list_completeness``, turned into Arrow
   columns by ``manifest_contents``, and kept in ``metadata_cache``.
5. ``batches``: batches of partitions out of manifests, and the data files of those that match. The
   engine makes splits of them.
6. ``delete_index``: which delete files apply to which data file; ``deletion_vectors`` and
   ``roaring`` decode the deleted positions when a reader asks for them.
7. ``physical_names``: the names that columns have in a data file, for readers that go by name.

``failures`` turns what PyIceberg and the storage raise into errors of splitlib, everywhere.
"""

from splitlib_iceberg.connector import IcebergConnector

__all__ = ["IcebergConnector"]
