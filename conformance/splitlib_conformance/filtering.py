"""Tests that filters keep all matching files, and that other partitions cause no requests."""

from __future__ import annotations

from hypothesis import given, settings

from splitlib import DynamicFilteringData
from splitlib_conformance.base import KitBase, Subject, enumerator
from splitlib_conformance.expectations import expect, expect_files, frozen
from splitlib_conformance.filter_cases import Filter, Values, filters_on
from splitlib_conformance.harness import Harness
from splitlib_conformance.key_cases import SEVERAL_KEYS, KeyCase

_MANY = 64
_EXAMPLES = 40
# Maximum number of requests for one partition: its details, its directory, and subdirectories.
_REQUESTS_OF_ONE_PARTITION = 4


class FilteringTests(KitBase):
    """Tests that read tables with filters."""

    def test_no_match_is_lost(self, subject: Subject, key_case: KeyCase) -> None:
        """With any filters, every matching file is read once, with its partition's values."""
        truth = {file.path: file for file in subject.files}
        # A Hypothesis profile may set a lower number of examples.
        examples = min(_EXAMPLES, settings().max_examples)
        with self.open(subject.address) as table:
            # Use a function, because Hypothesis rejects test methods that subclasses share.
            @settings(max_examples=examples, deadline=None, database=None, derandomize=True)
            @given(filters_on(key_case))
            def check(filters: list[Filter]) -> None:
                data = [each.data(key_case.schema) for each in filters]
                splits = list(enumerator(table, *data).enumerate_splits())
                paths = [split.path for split in splits]
                lost = [
                    file
                    for path, file in truth.items()
                    if path not in paths and all(each.keeps(file.values) for each in filters)
                ]
                expect(
                    not lost,
                    f"listed no file of {[f.values for f in lost][:3]} for the filters {filters}",
                    "every matching partition; a connector that uses the predicate may list too "
                    "much, never too little",
                )
                expect(
                    len(paths) == len(set(paths)),
                    f"listed some files twice for the filters {filters}",
                    "each file once",
                )
                for split in splits:
                    values = truth[split.path].values
                    expect(
                        frozen(split.partition_values) == frozen(values),
                        f"returned the partition values {split.partition_values} for {split.path}",
                        f"{values}",
                    )

            check()

    def test_one_value_reads_its_partition_alone(self, subject: Subject, key_case: KeyCase) -> None:
        """A filter with one tuple of values reads exactly the files of that partition."""
        names = tuple(key_case.schema.names)
        with self.open(subject.address) as table:
            for values in key_case.partitions:
                only = Values(names, (tuple(values.values()),)).data(key_case.schema)
                splits = enumerator(table, only).enumerate_splits()
                expect_files(splits, subject.files_where([values]), f"for {values} alone")

    def test_filter_on_a_part_of_the_keys(self, harness: Harness) -> None:
        """A filter on only the last key matches partitions with any values of the other keys."""
        subject = self.create_case(harness, SEVERAL_KEYS)
        wanted = [values for values in SEVERAL_KEYS.partitions if values["d"] is not None]
        days = Values(("d",), tuple((values["d"],) for values in wanted))
        splits = self.splits(subject, days.data(SEVERAL_KEYS.schema))
        expect_files(splits, subject.files_where(wanted), "for values of the last of three keys")

    def test_marker_reads_everything(self, simple: Subject) -> None:
        """The marker that replaces too many join keys prunes no partition."""
        marker = DynamicFilteringData.exceeded(simple.partition_schema)
        splits = self.splits(simple, marker)
        expect_files(splits, simple.files, "with the marker of too many keys, which prunes nothing")

    def test_pruned_partitions_are_not_listed(self, harness: Harness) -> None:
        """Reading one partition causes no requests for the files of other partitions."""
        subject = self.create_numbered(harness, _MANY)
        with self.open(subject.address) as table:
            named = enumerator(table)
            list(named.match_partitions())
            one = enumerator(table, DynamicFilteringData.from_values({"k": [7]}))
            expect_files(one.enumerate_splits(), subject.files_where([{"k": 7}]), "for k=7 alone")
            before, after = named.metrics, one.metrics
        expect(
            after.files_listed == 1,
            f"listed {after.files_listed} files for k=7, one of {_MANY} partitions",
            "the one file of that partition: list_files returns files of the given partitions only",
        )
        more = (
            after.storage_requests
            + after.metastore_requests
            - before.storage_requests
            - before.metastore_requests
        )
        expect(
            more <= _REQUESTS_OF_ONE_PARTITION,
            f"made {more} requests for the files of k=7, in addition to list_partitions",
            f"at most {_REQUESTS_OF_ONE_PARTITION}: partitions that do not match cost no requests "
            "beyond those for their names",
        )
