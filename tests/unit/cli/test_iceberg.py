"""Commands on Iceberg tables, which have evolved partitions and delete files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.transforms import BucketTransform, TruncateTransform
from pyiceberg.typedef import Record

import splitlib
from splitlib.cli import main
from tests.support.iceberg_tables import (
    add_deletes,
    append,
    catalog_options,
    create,
    data_file,
    delete_file,
    make_catalog,
)
from tests.unit.connectors.iceberg.simple_tables import BY_D, SIMPLE


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    made = make_catalog(tmp_path)
    yield made
    made.close()


def run(capsys: pytest.CaptureFixture[str], root: Path, command: str, *more: str) -> list[str]:
    """Run a command on the table ``ns.t``, and return the lines that it prints."""
    options = [f"-o{key}={value}" for key, value in catalog_options(root).items()]
    status = main([*command.split(), "-c", "iceberg", *options, *more])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out.splitlines()


def test_delete_files_are_shown(
    catalog: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    name = ".".join(table.name())
    assert len(run(capsys, tmp_path, f"plan {name}")[0].split("\t")) == 5
    assert len(run(capsys, tmp_path, f"plan {name} --format paths")) == 1
    add_deletes(table, delete_file(table, Record(1), DataFileContent.POSITION_DELETES))
    (line,) = run(capsys, tmp_path, f"plan {name}")
    assert line.split("\t")[-1] == "1"
    (line,) = run(capsys, tmp_path, f"plan {name} --json")
    assert [delete["kind"] for delete in json.loads(line)["deletes"]] == ["position"]
    (row,) = csv.DictReader(run(capsys, tmp_path, f"plan {name} --format csv"))
    assert row["delete_files"] == "1"
    options = [f"-o{key}={value}" for key, value in catalog_options(tmp_path).items()]
    assert main(["plan", name, "-c", "iceberg", *options, "--format", "paths"]) == 2
    assert "A list of paths cannot show that" in capsys.readouterr().err


def test_partitions_of_several_specs(
    catalog: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = create(catalog, SIMPLE, BY_D)
    append(table, [data_file(table, [{"d": 1}])])
    with table.update_spec() as update:
        update.add_field("c", BucketTransform(4), "bucket")
        update.add_field("c", TruncateTransform(10), "tens")
    append(table, [data_file(table, [{"d": 2, "c": 25}])])
    name = ".".join(table.name())
    lines = [json.loads(line) for line in run(capsys, tmp_path, f"partitions {name} --json")]
    values = {line["values"]["d"]: line["values"] for line in lines}
    assert values[1] == {"d": 1}
    assert values[2].keys() == {"d", "bucket", "tens"}
    assert values[2]["tens"] == 20
    assert len(run(capsys, tmp_path, f"partitions {name} --files")) == 2
    with splitlib.load_table(name, "iceberg", **catalog_options(tmp_path)) as opened:
        for found in (opened.partitions(), opened.files()):
            assert sorted(found["values"].to_pylist(), key=lambda row: row["d"])[1] == values[2]
            assert found["values"].to_pylist()[0].keys() == values[2].keys()
