"""Join keys, and what they say of partitions and files.

A ``collector`` gathers keys into ``data``, which consists of ``domains``: values or ranges of some
fields. ``coercion`` brings them into the types of a table's columns, ``matchers`` compare them with
partition values and file statistics, and ``predicate`` puts all filters of a table together: it
alone decides what matches. ``partition_names`` says what the partitions are called that it can
keep, where it says that. ``filter_bytes`` is how a filter travels between processes.
"""
