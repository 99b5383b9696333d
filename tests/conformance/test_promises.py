"""Check that each sentence of ``splitlib.spi`` has tests, or is listed as an explanation."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from splitlib import spi
from tests.conformance.planted_bugs.plant import ABILITIES
from tests.conformance.test_planted_bugs import TESTS

ROOT = Path(__file__).parents[2]
ENUMERATOR = "tests/unit/enumeration/test_enumerator.py"
SPI, TABLE = "tests/unit/test_spi.py", "tests/unit/test_table.py"

# The tests of each sentence, by the start of the sentence. Tests of the kit are written without
# ``test_``, other tests as file::test.
PROMISES: dict[str, tuple[str, ...]] = {
    "A connector is a class with four methods": (f"{SPI}::test_a_connector_is_four_methods",),
    "An entry point of the group": (
        "tests/unit/test_registry.py::test_a_connector_whose_module_fails_when_it_is_imported",
    ),
    "Optional abilities are protocols": ("abilities_are_there",),
    "``docs/connectors.md`` is the guide": (
        "tests/conformance/test_guide.py::test_the_connector_of_the_guide_passes",
        "tests/conformance/test_ten_minutes.py::test_a_copy_of_the_reference_passes_the_kit",
    ),
    "The engine turns every exception into an error": (
        "tests/unit/test_errors.py::test_foreign_errors_are_translated_once",
        f"{TABLE}::test_a_call_says_where_it_failed",
        "source_that_stays_unavailable",
        "refusal_is_access_denied",
    ),
    "So let exceptions through": (
        "unavailable_source_is_tried_again",
        "refusal_is_access_denied",
        "garbage_is_an_error",
    ),
    "Read-only view of one table": ("open_table_stays_as_described",),
    "All methods may be called from several threads": ("several_threads_at_once",),
    "Calls are independent": ("several_filters_at_once",),
    "partitions_per_listing: Maximum number": (
        f"{SPI}::test_no_call_is_given_more_than_the_connector_takes",
    ),
    "files_per_page: Number of files": (
        "tests/integration/storage/test_s3.py::test_hardly_more_requests_than_s3_permits",
    ),
    "If it is not 0, :attr:`partitions_per_listing` is ignored": (
        "tests/integration/storage/test_s3.py::test_hardly_more_requests_than_s3_permits",
    ),
    "If file counts or the partitions in between are unknown": (
        "tests/unit/enumeration/test_partitions.py"
        "::test_neighbours_by_name_are_found_out_by_the_first_page",
        "tests/unit/enumeration/test_partitions.py"
        "::test_neighbours_are_found_out_by_the_first_page_where_nothing_is_known_of_them",
    ),
    "A call may always stop after the first page": (
        "tests/unit/enumeration/test_partitions.py::test_what_is_listed_in_part_is_one_batch",
    ),
    "The engine makes many calls in parallel": (
        f"{ENUMERATOR}::test_deterministic_whatever_the_parallelism",
    ),
    "Reject unknown options": ("unknown_option",),
    "ConfigError: naming the unknown options": (
        f"{SPI}::test_an_unknown_option_is_refused_by_its_name",
    ),
    "Return a boolean option": (
        "tests/integration/session/test_by_name.py"
        "::test_numbers_and_dates_only_if_they_are_said_to_have_one_spelling",
    ),
    "ConfigError: if it is neither": (
        "tests/integration/session/test_by_name.py::test_one_spelling_is_true_or_false",
    ),
    "Return an option that is a whole number": (f"{SPI}::test_a_number_is_a_number_or_text",),
    "ConfigError: if it is not a whole": (f"{SPI}::test_what_is_no_number_is_refused",),
    "Return an option that is a time": (f"{SPI}::test_a_time_is_in_milliseconds",),
    "It may be given as a datetime or ISO 8601": (f"{SPI}::test_a_time_is_in_milliseconds",),
    "ConfigError: if it is not such a time": (f"{SPI}::test_what_is_no_time_is_refused",),
    "All names that a connector needs": (
        "tests/conformance/test_stability.py::test_what_a_connector_needs_is_in_one_module",
    ),
    "A splitlib with another version then refuses": (
        "tests/conformance/test_stability.py::test_a_connector_for_another_version_is_refused",
    ),
    "Return the positions in a 64-bit roaring bitmap": (f"{SPI}::test_a_bitmap_becomes_positions",),
    "The bitmap follows its magic bytes": (f"{SPI}::test_a_bitmap_becomes_positions",),
    "expected: Expected number": (f"{SPI}::test_what_is_no_bitmap_is_refused",),
    "CorruptMetadata: if the bytes are not such": (f"{SPI}::test_what_is_no_bitmap_is_refused",),
    "Listing partition names is cheap": (
        f"{ENUMERATOR}::test_only_matching_partitions_are_listed",
        "pruned_partitions_are_not_listed",
    ),
    "Do not list files, unless the table has a snapshot": ("opening_lists_no_files",),
    "Then all metadata of that snapshot may be loaded here": ("requests_are_counted",),
    "Count these requests in": ("requests_are_counted", "requests_of_opening_are_those_made"),
    "On an error, close all resources": (
        "failed_opening_gives_connections_back",
        "broken_opening_gives_connections_back",
    ),
    "ConfigError: for a missing, unknown": ("unknown_option",),
    "TableNotFound: if there is no such table": ("missing_table",),
    "SourceUnavailable: if the catalog does not answer": (
        "unavailable_source_is_tried_again",
        "source_that_stays_unavailable",
        "hanging_call_ends_at_its_deadline",
        "hanging_open_ends_at_its_deadline",
    ),
    "AccessDenied: if the catalog denies access": ("refusal_is_access_denied",),
    "Return schema, partition keys and format": (
        "schema_is_the_data_columns_then_the_keys",
        "open_table_stays_as_described",
    ),
    "Yield all partitions, each once, in an order": (
        "every_file_is_read_once",
        "no_partition_is_listed_twice",
        "small_pages_join_up",
        "order_is_the_same_every_time",
        "same_splits_in_the_same_order",
    ),
    "An unpartitioned table has one partition": ("unpartitioned_table",),
    "A connector may use ``predicate`` to list less": (
        "no_match_is_lost",
        "one_value_reads_its_partition_alone",
        "filter_on_a_part_of_the_keys",
        "marker_reads_everything",
    ),
    "The columns must be those": (
        "partitions_have_a_column_for_each_key",
        "partition_values_are_those_written",
        "tests/unit/test_checks.py::test_partitions",
    ),
    "Send requests lazily": (
        "partitions_are_listed_when_asked_for",
        "first_split_waits_for_few_listings",
    ),
    "Yield one batch per request": ("pages_hold_many_partitions", "small_pages_join_up"),
    "Request pages as large as the source offers": ("pages_hold_many_partitions",),
    "SourceUnavailable: as in :meth:`open`; the engine retries": (
        "unavailable_source_is_tried_again",
        f"{ENUMERATOR}::test_a_catalog_that_is_unavailable_is_tried_again_until_something_was_listed",
    ),
    "Yield the data files of some partitions": (
        "rows_come_back",
        "empty_partition",
        "files_belong_to_their_partition",
        "file_batches_have_the_schema",
    ),
    "Skip names that start with ``_`` or ``.``": ("hidden_files_are_not_data",),
    "Sizes must be exact": ("sizes_are_exact",),
    "``predicate`` is as in :meth:`list_partitions`": (
        "statistics_lose_no_match",
        "statistics_prune",
    ),
    "The engine checks each batch as far as it can": (
        "tests/unit/test_checks.py::test_statistics",
        "tests/unit/test_checks.py::test_files",
        "bounds_enclose_the_rows",
        "flags_are_of_the_rows",
    ),
    "MissingPartition: if a partition's directory": ("dropped_partition_is_no_silent_hole",),
    "Do not treat it as empty": ("dropped_partition_is_no_silent_hole",),
    "SourceUnavailable: as in :meth:`open`; the engine repeats": (
        f"{ENUMERATOR}::test_a_listing_that_is_unavailable_is_tried_again",
    ),
    "Release connections": ("connections_are_given_back",),
    "The connector is not used afterwards": (
        f"{SPI}::test_nothing_is_asked_of_a_connector_that_was_closed",
    ),
    "Maximum number of partitions in one call of :meth:`load_details`": (
        f"{SPI}::test_no_call_is_given_more_than_the_connector_takes",
    ),
    "Return the same partitions in the same order": ("details_are_of_the_partitions_given",),
    "Leave out partitions that were dropped": ("details_leave_out_what_was_dropped",),
    "Check that the table is still": ("identity_is_that_of_the_table",),
    "The engine calls this at the end of an enumeration": (
        f"{ENUMERATOR}::test_partitions_that_have_gone_with_their_table_are_an_error",
        f"{ENUMERATOR}::test_the_identity_is_not_checked_for_nothing",
    ),
    "TableNotFound: if the table was dropped": (
        "identity_ends_with_the_table",
        "identity_is_not_that_of_a_successor",
    ),
    "Yield the database and name of each table": ("table_names",),
    "database: Database to list; None means all": ("table_names",),
    "options: Options as in :meth:`Connector.open`": ("table_names",),
    "TableNotFound: if there is no such database": ("table_names_of_no_database",),
    "Return fsspec options that give access": ("storage_options",),
    "The options come from the user": (
        "storage_options",
        "tests/unit/connectors/iceberg/test_storage_options.py::test_s3",
    ),
    "This method sends no requests. protocol": ("storage_options",),
    "Return the host names of each file": ("hosts",),
    "Called in parallel, each call with the files of one listing": (
        f"{SPI}::test_no_call_is_given_more_than_the_connector_takes",
    ),
    "Yield the same files, with pairs of field id and name": (
        "physical_names",
        f"{TABLE}::test_an_answer_that_is_not_complete_is_refused",
    ),
    "All files of one batch have the same names": ("physical_names",),
    "MissingFile: if a file no longer exists": ("physical_names_of_a_file_that_has_gone",),
    "Return the positions of the deleted rows": ("deletion_vectors",),
    "CorruptMetadata: if the bytes are not a valid deletion vector": (
        "vectors_that_cannot_be_read",
    ),
    "MissingFile: if the file no longer exists": ("vectors_that_cannot_be_read",),
}
# Sentences that cannot be violated: definitions and advice.
EXPLANATIONS = (
    "The interface of a storage backend",
    "A connector only lists",
    "``docs/releases.md`` says what may change",
    "spi_version: The :data:`VERSION`",
    "Write it as a number",
    "Open the table ``name``.",
    "Needs the package",
    "vector: The bytes",
    "Runs on the driver",
    "Use more if one call costs the same",
    "The catalog can distinguish a table",
    "The catalog can list its tables",
    "This is a class method",
    "Wrong data that the engine cannot detect",
    "May open every file",
    "The storage reports the hosts",
    "Reading the table's files needs credentials",
    "Columns are matched by field id",
    "Deleted rows may be stored as a deletion vector",
    # each connector has its own tests for the tables that it rejects
    "UnsupportedTable: if reading it could give wrong rows",
    "A source that lists directories needs one request",
    "Used for readers that cannot match columns",
)


def _sentences() -> list[str]:
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(spi))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = re.sub(r"\n *(Args|Raises|Attributes):", "", ast.get_docstring(node) or "")
            text = re.sub(r"\s+", " ", text)
            # an entry of a section also begins a sentence
            found += re.split(r"(?<=\.) (?=[A-Z`]|\w+: [A-Z])", text)
    return [sentence for sentence in found if sentence]


@pytest.mark.parametrize("sentence", _sentences())
def test_each_sentence_has_its_tests(sentence: str) -> None:
    known = [each for each in (*PROMISES, *EXPLANATIONS) if sentence.startswith(each)]
    assert len(known) == 1, f"{sentence!r} needs a test: {known}"


def test_nothing_else_is_promised() -> None:
    said = _sentences()
    known = (*PROMISES, *EXPLANATIONS)
    assert [each for each in known if not any(s.startswith(each) for s in said)] == []


@pytest.mark.parametrize("test", sorted({test for tests in PROMISES.values() for test in tests}))
def test_the_tests_are_there(test: str) -> None:
    path, _, name = test.rpartition("::")
    if path:
        assert f"\ndef {name}(" in (ROOT / path).read_text("utf-8")
    else:
        assert f"test_{name}" in TESTS


def test_every_ability_is_put_to_the_kit() -> None:
    assert {each.__name__ for each in ABILITIES} == {
        name for name in spi.__all__ if name.startswith("Supports")
    }
