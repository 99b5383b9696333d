"""Join keys, and the partitions and files that match them.

A ``collector`` gathers keys into ``data``, which consists of ``domains``: values or ranges of some
fields. ``coercion`` converts them to the types of a table's columns, ``matchers`` compare them with
partition values and file statistics, and ``predicate`` combines all filters of a table: it alone
decides which partitions and files match. ``partition_names`` derives the names of matching
partitions where it can. ``filter_bytes`` serializes filters.
"""
