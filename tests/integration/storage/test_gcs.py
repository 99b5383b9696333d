"""Tables on Google Cloud Storage.

The tests use the S3 test server instead, because the listing API of Google Cloud Storage is
compatible with S3.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.oauth2.credentials import Credentials as UserCredentials
from obstore.store import GCSStore
from pyspark.sql import SparkSession

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData
from splitlib.storage import Storage
from splitlib.storage.clouds import GcsSettings
from splitlib.storage.pages import NotFollowed
from tests.support.s3_server import S3Server

PARTITIONS = 600


@pytest.fixture(scope="module")
def pond(s3: S3Server) -> S3Server:
    s3.fill("pond", {f"t/k={k:03}/{n}.parquet": b"x" for k in range(PARTITIONS) for n in "ab"})
    return s3


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, pond: S3Server) -> S3Server:
    """Make the clients for Google Cloud Storage use the test server. Reset its counters."""
    options: dict[str, Any] = {"base_url": pond.endpoint, "client_options": {"allow_http": True}}
    monkeypatch.setattr("obstore.store.GCSStore", partial(GCSStore, **options))
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    pond.forget()
    return pond


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
@pytest.mark.parametrize(("keys", "most"), [(range(200, 500), 3), (range(0, 600, 60), 10)])
def test_neighbours_come_in_pages(here: S3Server, scheme: str, keys: range, most: int) -> None:
    table = splitlib.load_table(
        f"{scheme}://pond/t",
        "files",
        partition_schema="k string",
        schema="a int",
        storage_options={"token": "anon"},
    )
    here.forget()
    enumerator = DynamicFileEnumerator(table)
    texts = pa.table({"k": [f"{k:03}" for k in keys]})
    enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_arrow(texts))
    found = [
        path for one in enumerator.select_files() for path in one.files.files["path"].to_pylist()
    ]
    assert sorted(found) == [f"{scheme}://pond/t/k={k:03}/{n}.parquet" for k in keys for n in "ab"]
    # Up to two requests list the partitions, and each page of files is one request.
    assert len(here.listings) <= most + 2
    assert (here.others, set(here.keys)) == (0, {""})


@pytest.mark.spark
def test_explain_says_that_tasks_read_as_the_session_does(spark: SparkSession) -> None:
    reader = splitlib.read(spark).table(
        "gs://pond/t",
        "files",
        partition_schema="k string",
        schema="a int",
        storage_options={"token": "anon"},
    )
    told = str(splitlib.explain(reader.where("k < '002'").load()))
    assert "storage options do not reach Spark's tasks on gs://" in told


def test_a_directory_that_is_not_there_and_a_bucket_that_is_not(here: S3Server) -> None:
    storage = Storage({"token": "anon"})
    with pytest.raises(splitlib.MissingPartition):
        storage.level("gs://pond/nothing")
    with pytest.raises(splitlib.SourceError, match="no bucket 'puddle'"):
        storage.level("gs://puddle/t")


def test_credentials_are_those_of_gcsfs(
    here: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    file = tmp_path / "account.json"
    file.write_text(json.dumps(told))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    asked = []

    def refresh(self: UserCredentials, request: Any) -> None:
        asked.append(self.client_id)
        self.token = f"fresh-{len(asked)}"

    monkeypatch.setattr(UserCredentials, "refresh", refresh)
    for token in (None, "google_default", told, str(file)):
        here.forget()
        Storage({"token": token}).level("gs://pond/t/k=007")
        assert here.keys == [f"fresh-{len(asked)}"]
    assert asked == ["i"] * 4
    here.forget()
    Storage({"token": UserCredentials(token="given")}).level("gs://pond/t/k=007")
    assert here.keys == ["given"]


@pytest.mark.parametrize(
    "options",
    [
        {"token": "browser"},
        {"token": "nowhere.json"},
        {"token": {"type": "of nobody"}},
        {"token": "anon", "requester_pays": True},
        {"token": "anon", "endpoint_url": "http://localhost:4443"},
    ],
    ids=str,
)
def test_what_obstore_cannot_follow_is_left_to_gcsfs(options: dict[str, Any]) -> None:
    with pytest.raises(NotFollowed):
        GcsSettings.from_fsspec(options).stores()


def test_an_emulator_is_left_to_gcsfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://localhost:4443")
    with pytest.raises(NotFollowed):
        GcsSettings.from_fsspec({"token": "anon"}).stores()


def test_options_that_say_nothing_about_a_listing(here: S3Server) -> None:
    options = {"token": "anon", "project": "p", "use_listings_cache": True, "timeout": None}
    assert len(Storage(options).level("gs://pond/t/k=007").files) == 2
