"""Match partitions and files with join keys.

``collector`` gathers keys into ``data``, which consists of ``domains``: values or ranges of some
fields. ``matchers`` converts keys to the types of a table's columns, and compares them with
partition values and file statistics. ``predicate`` combines all filters on a table and decides
which partitions and files match. ``partition_names`` computes the names of matching partitions.
``filter_bytes`` serializes filters.
"""
