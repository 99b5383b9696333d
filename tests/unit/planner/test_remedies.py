"""Every reason not to prune says what to do."""

from __future__ import annotations

import re

import pytest

from splitlib.report import FilterUse, Report
from splitlib.spark.planner import remedies
from splitlib.spark.planner.remedies import advised, in_session, with_remedy
from tests.unit.planner.shapes import shapes

REASON = re.compile(r"(?:\[\S+\] )?\w+: (.*\.)")
REASONS = sorted(
    {found[1] for shape in shapes() for line in shape.decided if (found := REASON.fullmatch(line))}
)


def test_many_reasons_are_tried() -> None:
    assert len(REASONS) > 20


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_of_the_shapes_has_a_remedy(reason: str) -> None:
    shown = in_session(reason) or ""
    advice = with_remedy(reason).removeprefix(shown)
    assert advice.startswith(" ")
    assert advice.endswith(".")
    assert with_remedy(shown + advice) == shown + advice


def test_a_limit_names_its_setting() -> None:
    size = "the dimension reads 2.0 GiB, more than {} (1.0 GiB)."
    assert with_remedy(size.format("planner_dimension_bytes")) == (
        size.format("spark.splitlib.plannerDimensionBytes")
        + " Raise this limit, in bytes, to read the dimension for its keys."
    )
    for setting in ("filter_max_values", "condition_literals", "condition_literals_jdbc"):
        assert "). Raise this limit, or" in with_remedy(
            f"there are 4 keys, more than {setting} (3)."
        )
    assert "spark.splitlib.plannerSmallFactPartitions" in with_remedy(
        "the table has only 4 partitions (planner_small_fact_partitions is 4)."
    )
    assert "ANALYZE TABLE" in with_remedy("the dimension reads a table of unknown size.")
    assert "splitlib.freeze" in with_remedy("the dimension reads an RDD that is also read else.")


def test_an_operator_is_named() -> None:
    reason = "keys are not applied below LIMIT, which is above this table."
    assert with_remedy(reason).removeprefix(reason) == (
        " Join the dimension before LIMIT, if the query then means the same. Otherwise add a "
        "condition before LIMIT."
    )


def test_hints_name_the_settings_of_a_session() -> None:
    assert in_session("filter more, or raise max_partitions.") == (
        "filter more, or raise spark.splitlib.maxPartitions."
    )
    assert in_session("run it again, or set missing_partition to 'skip'.") == (
        "run it again, or set spark.splitlib.missingPartition to 'skip'."
    )
    assert in_session("`max_partitions = 1` reads 'max_partitions'") == (
        "`max_partitions = 1` reads 'max_partitions'"
    )


def test_reports_name_the_settings_of_a_session() -> None:
    use = FilterUse(("k",), "k", unused_because="Set filter_on_exceed to range.")
    scan = Report("t", filters=(use,), notes=("Set verify_files to false.",))
    report = advised(Report(reasons=("dynamic_filtering_enabled is off.",), scans=(scan,)))
    assert report.reasons == ("spark.splitlib.dynamicFilteringEnabled is off. Set it to true.",)
    assert report.scans[0].notes == ("Set spark.splitlib.verifyFiles to false.",)
    assert report.scans[0].filters[0].unused_because == (
        "Set spark.splitlib.filterOnExceed to range."
    )


def test_settings_in_remedies_exist() -> None:
    from dataclasses import fields

    from splitlib.config import SPARK_PREFIX, SplitConfig, option_name

    known = {SPARK_PREFIX + option_name(spec.name) for spec in fields(SplitConfig)}
    named = re.findall(r"spark\.splitlib\.\w+", " ".join(vars(remedies)["_REMEDIES"].values()))
    assert named
    assert set(named) <= known


def test_reports_and_their_scans_are_advised() -> None:
    report = Report(reasons=("the query has no join.",), scans=(Report("t", reasons=("other.",)),))
    advice = advised(report)
    assert advice.reasons == (with_remedy("the query has no join."),)
    assert advice.scans[0].reasons == ("other.",)
    assert advised(advice) == advice


def test_the_limits_of_filters_are_named_as_in_a_session() -> None:
    use = FilterUse(("k",), "k in [1, 9], a range because of filter_max_values")
    (advice,) = advised(Report(scans=(Report("t", filters=(use,)),))).scans
    assert advice.filters[0].description.endswith(" spark.splitlib.filterMaxValues")


def test_reports_mask_credentials() -> None:
    path = "s3://me:hidd3n@bucket/t"
    scan = Report(path, reasons=(f"no keys of {path}.",), condition=f"`{path}`.k = 1")
    shown = advised(Report(notes=(f"files of {path}",), scans=(scan,)))
    assert "hidd3n" not in str(shown.to_dict())
    assert shown.scans[0].table == "s3://***@bucket/t"
