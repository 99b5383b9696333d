"""A check that no visible text of a DataFrame contains a secret."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import splitlib


def shown(df: Any) -> list[str]:
    """Return all texts that Spark and splitlib show for a DataFrame."""
    execution = df._jdf.queryExecution()
    plans = (execution.analyzed(), execution.optimizedPlan(), execution.executedPlan())
    explained = df.sparkSession._jvm.PythonSQLUtils.explainString
    modes = ("simple", "extended", "codegen", "cost", "formatted")
    report = splitlib.explain(df)
    return [
        *(plan.toJSON() for plan in plans),
        *(plan.treeString() for plan in plans),
        *(explained(execution, mode) for mode in modes),
        str(report),
        report._repr_html_(),
        json.dumps(report.to_dict(), default=str),
    ]


def assert_not_shown(spark: Any, df: Any, secrets: Iterable[str]) -> None:
    """Assert that no plan, explanation or event log contains a secret."""
    texts = shown(df)
    log = Path(urlparse(spark.conf.get("spark.eventLog.dir")).path)
    logs = [path for path in log.rglob("*") if path.is_file() and "events" in path.name]
    assert logs
    texts += [path.read_text() for path in logs]
    assert any("SparkListenerSQLExecutionStart" in text for text in texts)
    for secret in secrets:
        assert not any(secret in text for text in texts)
