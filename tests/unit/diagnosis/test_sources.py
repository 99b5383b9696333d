"""Findings about packages, settings, catalogs, storage and the clock."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from splitlib.diagnosis.machine import Finding, Requirement, package_findings
from splitlib.diagnosis.sources import Clock, source_findings, time_of_server
from splitlib.storage import OptionsByProtocol
from tests.documents.examples import ROOT
from tests.support.hostile_s3 import HostileS3

CORE = Requirement("pyarrow", ">=18,<28", "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pyarrow<28,>=22", Requirement("pyarrow", "<28,>=22", "")),
        ('pyiceberg[sql-sqlite]<0.13,>=0.11; extra == "iceberg"',
         Requirement("pyiceberg", "<0.13,>=0.11", "iceberg")),
        ("Thrift (>=0.16) ; extra == 'hive'", Requirement("thrift", ">=0.16", "hive")),
        ("boto3", Requirement("boto3", "", "")),
        ("name @ https://example.com/x.whl", None),
    ],
)  # fmt: skip
def test_requirements_of_a_package(line: str, expected: Requirement | None) -> None:
    assert Requirement.of(line) == expected


@pytest.mark.parametrize(
    ("bounds", "version", "fits"),
    [
        (">=22,<28", "22.0.0", True),
        (">=22,<28", "28.0", False),
        (">=22,<28", "21.9", False),
        (">=22,<28", "27.0.0.dev3", True),
        ("==1.5.5", "1.5.5", True),
        ("==1.5", "1.5.0", True),
        ("!=1.5", "1.5.0", False),
        (">1,<=2", "2.0", True),
        (">1,<=2", "1.0", False),
        ("~=1.2", "9", True),
        ("", "9", True),
    ],
)
def test_bounds(bounds: str, version: str, fits: bool) -> None:
    assert Requirement("p", bounds, "").fits(version) == fits


def test_every_extra_says_what_it_is_for() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    names = list(setup["options.extras_require"])
    found = list(package_findings([Requirement("p", "", name) for name in names], lambda _: "1"))
    texts = {finding.check: finding.text for finding in found}
    assert "OpenTelemetry" in texts["extra opentelemetry"]
    assert not [text for text in texts.values() if "of this name" in text]


def test_packages_and_extras() -> None:
    requirements = [
        CORE,
        Requirement("numpy", ">=1.26", ""),
        Requirement("s3fs", ">=2024.2", "s3"),
        Requirement("obstore", ">=0.9.4", "s3"),
        Requirement("thrift", ">=0.16", "hive"),
        Requirement("lakes", "", "lake"),
        Requirement("ruff", "<0", "dev"),
    ]
    versions = {"pyarrow": "16.1", "s3fs": "2025.1", "thrift": "0.20", "ruff": "1"}
    found = list(package_findings(requirements, versions.get))
    assert [(f.check, f.status) for f in found] == [
        ("packages", "problem"),
        ("packages", "problem"),
        ("extra hive", "good"),
        ("extra lake", "note"),
        ("extra s3", "note"),
    ]
    assert found[0].advice == "run: pip install 'pyarrow>=18,<28'"
    assert "numpy is not installed" in found[1].text
    assert "features of this name" in found[3].text
    assert found[4].text.startswith("obstore is not installed, for tables on S3")
    (good, *_) = package_findings([CORE], lambda _: "22.1")
    assert (good.status, good.text) == ("good", "The installed versions fit: pyarrow 22.1.")
    (unknown,) = package_findings([])
    assert unknown.status == "note"


def test_versions_are_those_that_are_installed() -> None:
    assert [f.status for f in package_findings([CORE])] == ["good"]


def findings(
    environ: Mapping[str, str],
    locations: Mapping[str, Mapping[str, Any]] | None = None,
    clock: Clock | None = None,
) -> dict[str, Finding]:
    return {f.check: f for f in source_findings({}, locations or {}, environ, clock)}


def test_settings_and_defaults() -> None:
    found = findings({})
    assert {name: f.status for name, f in found.items()} == {
        "settings": "good",
        "catalogs": "note",
        "clock": "note",
    }
    assert "all have defaults" in found["settings"].text
    found = findings({"SPLITLIB_LISTING_THREADS": "3"})
    assert "listing_threads = 3 (SPLITLIB_LISTING_THREADS)" in found["settings"].text
    found = findings({"SPLITLIB_LISTING_TREADS": "3"})
    assert found["settings"].status == "problem"
    assert "did you mean" in found["settings"].advice


def of_lake(**options: str) -> dict[str, str]:
    return {f"SPLITLIB_CATALOG__LAKE__{k.upper()}": value for k, value in options.items()}


def test_a_catalog_without_a_connector_or_with_an_unknown_one() -> None:
    lake = findings(of_lake(uri="thrift://h"))["catalog lake"]
    assert lake.status == "problem"
    assert "SPLITLIB_CATALOG__LAKE__CONNECTOR" in lake.advice
    lake = findings(of_lake(connector="hvie"))["catalog lake"]
    assert lake.status == "problem"
    assert "did you mean 'hive'?" in lake.advice


def test_a_metastore_that_does_not_answer() -> None:
    with socket.socket() as unused:  # the port is reserved, but no server listens on it
        unused.bind(("127.0.0.1", 0))
        uri = f"thrift://me:hunter22@127.0.0.1:{unused.getsockname()[1]}"
        lake = findings(of_lake(connector="hive", uri=uri))["catalog lake"]
    assert lake.status == "problem"
    assert "hunter22" not in f"{lake}{lake.to_dict()}"
    assert lake.advice


def test_an_iceberg_catalog_without_tables(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{tmp_path}/catalog.db"
    SqlCatalog("default", uri=uri, warehouse=str(tmp_path)).close()
    lake = findings(of_lake(connector="iceberg", type="sql", uri=uri))["catalog lake"]
    assert (lake.status, lake.text) == (
        "good",
        "The iceberg catalog lake answers, and it has no tables.",
    )


def test_locations(tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    (tmp_path / "f.parquet").touch()
    good = findings({}, {str(tmp_path): {}})["storage"]
    assert good.text == f"{tmp_path} has 1 directories and 1 files."
    bad = findings({}, {f"{tmp_path}/none": {}})["storage"]
    assert bad.status == "problem"
    assert "cannot be listed" in bad.text
    outside = findings({"SPLITLIB_ALLOWED_LOCATIONS": "/data"}, {str(tmp_path): {}})["storage"]
    assert "outside of allowed_locations" in outside.text


@pytest.mark.parametrize(
    ("seconds", "status", "text"),
    [
        (0, "good", "agrees with"),
        (40, "note", "40 s ahead of"),
        (-40, "note", "40 s behind"),
        (1000, "problem", "1000 s ahead of"),
        (None, "note", "does not report its time"),
    ],
)
def test_the_clock(seconds: float | None, status: str, text: str) -> None:
    of_server = None if seconds is None else 5000.0 - seconds
    clock = Clock(lambda: 5000.0, lambda url: of_server)
    found = findings({"AWS_ENDPOINT_URL": "http://store:9000"}, clock=clock)["clock"]
    assert found.status == status
    assert text in found.text


def test_servers_whose_clock_is_compared(tmp_path: Path) -> None:
    seen: list[str] = []

    def of_server(url: str) -> float:
        seen.append(url)
        raise OSError("unreachable")

    environ = of_lake(connector="files", uri="https://rest.example.com/v1")
    locations: dict[str, Mapping[str, Any]] = {
        str(tmp_path): {"client_kwargs": {"endpoint_url": "http://minio:9000"}}
    }
    found = findings(environ, locations, Clock(lambda: 0.0, of_server))
    assert seen == ["https://rest.example.com/v1", "http://minio:9000"]
    assert found["clock"].status == "problem"


def test_a_server_that_only_the_clock_cannot_reach(tmp_path: Path) -> None:
    def of_server(url: str) -> float:
        raise OSError("unreachable")

    locations: dict[str, Mapping[str, Any]] = {
        str(tmp_path): {"client_kwargs": {"endpoint_url": "http://minio:9000"}}
    }
    found = findings({}, locations, Clock(lambda: 0.0, of_server))
    assert (found["storage"].status, found["clock"].status) == ("good", "note")


def test_locations_are_listed_with_the_settings_of_the_session() -> None:
    seen: list[str] = []
    with HostileS3({"t/a": 1}).running() as server:
        session = OptionsByProtocol({"s3": server.options})
        found = {
            finding.check: finding
            for finding in source_findings(
                {},
                {"s3a://b/t": {}},
                {},
                Clock(lambda: 0.0, seen.append),
                session_storage=session,
            )
        }
    assert found["storage"].text == (
        "s3a://b/t has 0 directories and 1 files, with the storage settings of the session."
    )
    assert seen == [server.options["endpoint_url"]]


@pytest.fixture
def server() -> Iterator[tuple[str, list[str | None]]]:
    """Run a server whose responses have the header ``Date`` from a list, or none."""
    dates: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(403)
            if dates[0] is not None:
                self.send_header("Date", dates[0])
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}/path", dates
        httpd.shutdown()
        thread.join()


def test_the_time_of_a_server(server: tuple[str, list[str | None]]) -> None:
    url, dates = server
    dates[:] = [formatdate(1_700_000_000, usegmt=True)]
    assert time_of_server(url) == 1_700_000_000
    dates[:] = [None]
    assert time_of_server(url) is None
    dates[:] = ["yesterday"]
    with pytest.raises(ValueError, match="yesterday"):
        time_of_server(url)
