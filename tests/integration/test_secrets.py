"""A secret in an input of splitlib never appears in outputs, errors, logs or files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.integration.conftest import SHORT_LIVED_JAVA
from tests.integration.planted_secrets import SECRET

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]


def test_no_output_holds_a_secret(tmp_path):
    catalogs = tmp_path / "catalogs.json"
    options = {
        "connector": "files",
        "partition_schema": "day int",
        "storage_options": {"secret": SECRET},
    }
    ice = {
        "connector": "iceberg",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/ice.db",
        "warehouse": tmp_path.as_uri(),
        "s3.secret-access-key": SECRET,
    }
    catalogs.write_text(json.dumps({"lake": options, "ice": ice}))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    env |= {"PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable}
    env |= {"SPLITLIB_CATALOGS_FILE": str(catalogs), **SHORT_LIVED_JAVA}
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.planted_secrets", str(tmp_path)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=300,
    )
    assert "all of it ran" in done.stdout, (done.stdout[-1500:], done.stderr[-3000:])
    logs = [path for path in (tmp_path / "events").rglob("*") if path.is_file()]
    assert logs
    texts = {path.name: path.read_text() for path in logs}
    assert any("SparkListenerApplicationEnd" in text for text in texts.values())
    kept = {path: path.read_bytes() for path in tmp_path.rglob("checkpoint/**/*") if path.is_file()}
    assert any(content.startswith(b"v1\n") for content in kept.values())
    assert not [path for path, content in kept.items() if SECRET.encode() in content]
    found = [
        f"{name}: {line[:600]}"
        for name, text in {"stdout": done.stdout, "stderr": done.stderr, **texts}.items()
        for line in text.splitlines()
        if SECRET in line
    ]
    assert found == []
