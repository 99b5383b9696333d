"""Find the splits of a table that match all filters.

``enumerator`` has the public class, which collects filters and runs a pipeline. ``pipeline`` lists
partitions, matches them with the filters, lists their files, and matches again. ``learning`` drops
files by statistics from Parquet footers, ``footer_reads`` reads them, and ``analyze`` reads the
footers of a whole table. ``splitting`` cuts files into splits, ``late_filters`` drops files that
were already selected, and ``tally`` counts and explains the pruning.
"""
