"""Does a filter keep all that matches, and does it save work?"""

from __future__ import annotations

from hypothesis import given, settings

from splitlib import DynamicFilteringData
from splitlib_conformance.base import (
    KitBase,
    Subject,
    enumerator,
    read_from,
    written,
)
from splitlib_conformance.filter_cases import Filter, Values, filters_on
from splitlib_conformance.harness import Harness
from splitlib_conformance.key_cases import SEVERAL_KEYS, KeyCase

_MANY = 64


class FilteringTests(KitBase):
    """What is read when join keys are known."""

    def test_no_match_is_lost(self, subject: Subject, key_case: KeyCase) -> None:
        """Whatever the filters: every match is read once, with the values of its partition."""
        truth = {file.path: file for file in subject.files}
        with self.open(subject.address) as table:
            # made anew in each test, since Hypothesis refuses one that several subclasses share
            @settings(max_examples=40, deadline=None, database=None, derandomize=True)
            @given(filters_on(key_case))
            def check(filters: list[Filter]) -> None:
                data = [each.data(key_case.schema) for each in filters]
                splits = list(enumerator(table, *data).enumerate_splits())
                paths = [split.path for split in splits]
                matching = {
                    path for path, f in truth.items() if all(e.keeps(f.values) for e in filters)
                }
                assert matching - set(paths) == set()
                assert len(paths) == len(set(paths))
                for split in splits:
                    assert split.partition_values == truth[split.path].values

            check()

    def test_one_value_reads_its_partition_alone(self, subject: Subject, key_case: KeyCase) -> None:
        """Pruning is exact where the filter has the key's own type."""
        names = tuple(key_case.schema.names)
        with self.open(subject.address) as table:
            for values in key_case.partitions:
                only = Values(names, (tuple(values.values()),)).data(key_case.schema)
                splits = enumerator(table, only).enumerate_splits()
                assert read_from(splits) == written(subject.files_where([values]))

    def test_filter_on_a_part_of_the_keys(self, harness: Harness) -> None:
        """A filter on the last key alone: each value has partitions below each other key."""
        subject = self.create_case(harness, SEVERAL_KEYS)
        wanted = [values for values in SEVERAL_KEYS.partitions if values["d"] is not None]
        days = Values(("d",), tuple((values["d"],) for values in wanted))
        splits = self.splits(subject, days.data(SEVERAL_KEYS.schema))
        assert read_from(splits) == written(subject.files_where(wanted))

    def test_marker_reads_everything(self, simple: Subject) -> None:
        """Too many keys prune nothing."""
        marker = DynamicFilteringData.exceeded(simple.partition_schema)
        assert read_from(self.splits(simple, marker)) == written(simple.files)

    def test_pruned_partitions_are_not_listed(self, harness: Harness) -> None:
        """Reading one partition costs the same however many others there are."""
        subject = self.create_numbered(harness, _MANY)
        with self.open(subject.address) as table:
            one = enumerator(table, DynamicFilteringData.from_values({"k": [7]}))
            assert read_from(one.enumerate_splits()) == written(subject.files_where([{"k": 7}]))
            assert one.metrics.files_listed == 1
            assert one.metrics.storage_requests + one.metrics.metastore_requests < _MANY / 4
