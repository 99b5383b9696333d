"""``splitlib.doctor``: its arguments, its result, and the findings about a session."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import splitlib
from splitlib.diagnosis.doctor import Diagnosis
from splitlib.diagnosis.machine import Finding
from splitlib.errors import ConfigError
from splitlib.storage import OptionsByProtocol


class Session:
    """A session without Spark's internals. Its catalogs have the given numbers of databases."""

    version = "4.1.0"

    def __init__(self, settings: dict[str, str], databases: dict[str, int]) -> None:
        self.conf = SimpleNamespace(getAll=settings, get=settings.get)
        self.catalog = SimpleNamespace(currentCatalog=lambda: "spark_catalog")
        self._databases = databases

    def createDataFrame(self) -> None:
        """Exist, as the methods of a session do."""

    def sql(self, query: str) -> Any:
        name = query.removeprefix("SHOW NAMESPACES IN ").strip("`")
        if name not in self._databases:
            raise RuntimeError(f"Cannot find catalog plugin class for catalog '{name}'\nat x.y")
        return SimpleNamespace(collect=lambda: range(self._databases[name]))


def findings(settings: dict[str, str], **databases: int) -> dict[str, Finding]:
    session: Any = Session(settings, {"spark_catalog": 2, **databases})
    return {finding.check: finding for finding in splitlib.doctor(session).findings}


def test_catalogs_of_sparks_settings() -> None:
    found = findings(
        {"spark.sql.catalog.lake": "a.b.Lake", "spark.sql.catalog.lake.uri": "x",
         "spark.sql.catalog.pond": "a.b.Pond"},
        lake=3,
    )  # fmt: skip
    assert found["session"].text == "The session runs Spark 4.1.0."
    assert found["catalog session"].status == found["catalog lake"].status == "good"
    assert "has 2 databases" in found["catalog session"].text
    assert "lake, a.b.Lake, answers, and has 3 databases" in found["catalog lake"].text
    assert found["catalog pond"].status == "problem"
    assert found["catalog pond"].text.endswith("for catalog 'pond'")
    assert "spark.sql.catalog.pond.*" in found["catalog pond"].advice
    assert "java" not in found  # a session runs, so there is a Java


def test_splitlibs_settings_and_catalogs_of_the_session() -> None:
    found = findings({"spark.splitlib.listingThreads": "3"})
    assert "listing_threads = 3 (spark.splitlib.listingThreads)" in found["settings"].text
    found = findings({"spark.splitlib.catalog.lake.connector": "hvie"})
    assert "did you mean 'hive'?" in found["catalog lake"].advice
    found = findings({"spark.splitlib.listingTreads": "3"})
    assert found["settings"].status == "problem"
    assert found["catalog session"].status == "good"


@pytest.fixture
def metastore() -> Iterator[socket.socket]:
    """Reserve a port, on which the test may listen."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        yield server


def test_metastores_of_sparks_settings(metastore: socket.socket) -> None:
    uri = f"thrift://127.0.0.1:{metastore.getsockname()[1]}"
    settings = {"spark.hadoop.hive.metastore.uris": uri}
    assert "does not use a Hive metastore" in findings(settings)["metastore"].text
    settings["spark.sql.catalogImplementation"] = "hive"
    found = findings(settings)
    assert found["metastore"].status == "problem"
    assert f"{uri} cannot be reached" in found["metastore"].text
    assert "catalog session" not in found
    metastore.listen()
    found = findings(settings)
    assert found["metastore"].text == f"The metastore {uri} accepts connections."
    assert found["catalog session"].status == "good"
    settings["spark.hadoop.hive.metastore.uris"] = "thrift://host:port"
    assert "cannot be reached" in findings(settings)["metastore"].text


def test_the_result(tmp_path: Path) -> None:
    found = splitlib.doctor(None, tmp_path, f"{tmp_path}/none")
    checks = [finding.check for finding in found.findings if finding.check == "storage"]
    assert len(checks) == 2
    (problem,) = (finding for finding in found.problems if finding.check == "storage")
    assert f"{tmp_path}/none" in problem.text
    assert str(found).count("\n") == len(found.findings) - 1
    assert "splitlib doctor" not in str(found)
    assert json.loads(json.dumps(found.to_dict()))["findings"][0]["check"] == "python"


def test_html() -> None:
    html = Diagnosis((Finding("java", "problem", "<none>", "install it"),)).to_html()
    assert "&lt;none&gt;" in html
    assert "<td>install it</td>" in html
    assert html.startswith("<!doctype html>")


def test_wrong_arguments() -> None:
    wrong: Any = "s3://bucket"
    listed: Any = [wrong]
    options: Any = "flamingo9"
    with pytest.raises(ConfigError, match=r"not a str.*splitlib\.doctor\(spark, \*locations"):
        splitlib.doctor(wrong)
    with pytest.raises(ConfigError, match="not a list"):
        splitlib.doctor(None, listed)
    with pytest.raises(ConfigError, match="storage_options is a str") as raised:
        splitlib.doctor(None, "s3://b", storage_options=options)
    assert "flamingo9" not in str(raised.value)


def test_locations_with_the_settings_of_a_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Any] = []

    def options_of(session: Any) -> OptionsByProtocol:
        seen.append(session)
        return OptionsByProtocol()

    monkeypatch.setattr("splitlib.spark.session.storage_options_of", options_of)
    session: Any = Session({}, {"spark_catalog": 2})
    found = {finding.check: finding for finding in splitlib.doctor(session, tmp_path).findings}
    assert found["storage"].status == "good"
    assert seen == [session]
