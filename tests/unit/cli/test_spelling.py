"""Hints in the spelling of the command line."""

import pytest

from splitlib.cli.app import as_typed


@pytest.mark.parametrize(
    ("hint", "typed"),
    [
        ("raise max_partitions.", "raise --set max_partitions=VALUE."),
        ("set missing_partition to 'skip'.", "use --set missing_partition=skip."),
        ("Set learn_statistics to true.", "Use --set learn_statistics=true."),
        ("a session with spark_scan='auto', or", "a session with --set spark_scan=auto, or"),
        ("Call splitlib.analyze, which", "Run splitlib analyze, which"),
        ("learn_statistics is off", "learn_statistics is off"),
        ("pass region=..., or set AWS_REGION.", "pass -o region=VALUE, or set AWS_REGION."),
        ("pass unfiltered=True.", "pass -o unfiltered=True."),
        ("pass uri='thrift://host:9083'.", "pass -o uri=thrift://host:9083."),
        ("did you mean 'listing_threads'?", "did you mean 'listing_threads'?"),
        ("write --set max_partitions=5", "write --set max_partitions=5"),
        ("pass connector=..., one of a, b", "pass -c NAME, one of a, b"),
        ("use connector='iceberg'.", "use -c iceberg."),
        ("pass schema=, or move it", "pass -o schema=VALUE, or move it"),
        ("pass format='orc' and schema=.", "pass -o format=orc and -o schema=VALUE."),
        ('pass percent_escapes="utf-8", or "spark"', 'pass -o percent_escapes=utf-8, or "spark"'),
        ("choose one with catalog=.", "choose one with -o catalog=VALUE."),
        ("set spark.splitlib.catalog.lake.connector.", "set SPLITLIB_CATALOG__LAKE__CONNECTOR."),
        ("omit partition_schema", "omit partition_schema"),
        ("write -o storage_options.KEY=VALUE", "write -o storage_options.KEY=VALUE"),
    ],
)
def test_hints(hint: str, typed: str) -> None:
    assert as_typed(hint) == typed
