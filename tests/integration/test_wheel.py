"""The wheel and the source distribution work outside of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.documents.examples import blocks
from tests.integration.conftest import SHORT_LIVED_JAVA

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]

CORE_ALONE = """
import importlib.util
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
import splitlib

assert importlib.util.find_spec("pyspark") is None
for day in range(10):
    Path(f"sales/day={day}").mkdir(parents=True)
    pq.write_table(pa.table({"v": [day]}), f"sales/day={day}/part.parquet")
table = splitlib.load_table("sales", connector="files", partition_schema="day int")
enumerator = splitlib.DynamicFileEnumerator(table)
enumerator.set_dynamic_filtering_data(splitlib.DynamicFilteringData.from_values({"day": [3, 4]}))
assert len(list(enumerator.enumerate_splits())) == 2
"""

PRUNED_READ = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import splitlib

assert "site-packages" in splitlib.__file__, splitlib.__file__
assert (Path(splitlib.__file__).parent / "py.typed").exists()
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sql("CREATE TABLE sales (v INT, day INT) USING parquet PARTITIONED BY (day)")
spark.sql("INSERT INTO sales SELECT id, id % 10 FROM range(100)")
days = spark.sql("SELECT id AS d FROM range(10) WHERE id IN (3, 4)")

location = spark.sql("DESCRIBE FORMATTED sales").where("col_name = 'Location'").first()[1]
read = splitlib.read(spark).table(
    location, connector="files", format="parquet", partition_schema="day int"
).filtered_by(days, on={"day": "d"}).load()
assert splitlib.explain(read).metrics.partitions_matched == 2
assert read.count() == 20

found = splitlib.sql(spark, "SELECT * FROM sales JOIN (VALUES (3)) AS days (d) ON day = d")
assert splitlib.explain(found).scans[0].partitions.matched == 1, str(splitlib.explain(found))
assert found.count() == 10
"""

# mypy reports a ``type: ignore`` that is not needed. So every line with this comment must have a
# type error, which shows that the types of splitlib are not ``Any``.
TYPED = """
from collections.abc import Iterator, Mapping
from typing import Any, Self, assert_type

from pyspark.sql import DataFrame, SparkSession

import splitlib
from splitlib.model import FileBatch, PartitionBatch, ReadFormat, TableMetadata
from splitlib.spi import Connector, Predicate


class Tables(Connector):
    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        return cls()

    def describe(self) -> TableMetadata:
        return TableMetadata(None, ("day",), ReadFormat("parquet"), "/sales")

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        return iter(())

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        return iter(())


class Unfinished(Connector):
    def describe(self) -> str:  # type: ignore[override]
        return ""


Unfinished()  # type: ignore[abstract]
splitlib.register("tables", Tables)
splitlib.register("tables", str)  # type: ignore[arg-type]
table = splitlib.load_table("sales", connector="tables", root="/sales")
assert_type(table, splitlib.Table)
assert_type(table.partition_keys, tuple[str, ...])
splitlib.load_table(1)  # type: ignore[arg-type]

enumerator = splitlib.DynamicFileEnumerator(table, splitlib.SplitConfig(listing_threads=4))
assert_type(enumerator, splitlib.DynamicFileEnumerator)
keys = splitlib.DynamicFilteringData.from_values({"day": [3, 4]})
assert_type(keys, splitlib.DynamicFilteringData)
enumerator.set_dynamic_filtering_data(keys)
enumerator.set_dynamic_filtering_data([3, 4])  # type: ignore[arg-type]
for split in enumerator.enumerate_splits():
    assert_type(split, splitlib.FileSplit)
    assert_type(split.path, str)
    assert_type(split.length, int)
assert_type(enumerator.metrics, splitlib.ScanMetrics)
assert_type(enumerator.explain(), splitlib.Report)


def pruned(spark: SparkSession, days: DataFrame) -> None:
    reader = splitlib.read(spark).table("sales", connector="tables").where("day > 2")
    sales = reader.filtered_by(days, on={"day": "d"}).load()
    assert_type(sales, DataFrame)
    assert_type(splitlib.sql(spark, "SELECT * FROM lake.db.sales"), DataFrame)
    assert_type(splitlib.optimize(sales), DataFrame)
    assert_type(splitlib.replan(sales), DataFrame)
    assert_type(splitlib.freeze(days), DataFrame)
    splitlib.sql("SELECT 1")  # type: ignore[call-arg, arg-type]
    spark.dataSource.register(splitlib.SplitlibDataSource)
"""


def run(*command, cwd):
    # Without these variables, the command cannot find the checkout or the tests' Spark session.
    hidden = ("PYTHON", "SPARK_", "PYSPARK_", "VIRTUAL_ENV")
    env = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=env | SHORT_LIVED_JAVA,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    # setuptools creates directories in the source tree, so the test builds from a copy.
    made = tmp_path_factory.mktemp("distributions")
    source = made / "source"
    copy_of_the_tree(source)
    run(sys.executable, "-m", "build", "--outdir", made, source, cwd=made)
    return made


def copy_of_the_tree(target):
    if not (ROOT / ".git").exists():  # This tree is an unpacked source distribution.
        left_out = shutil.ignore_patterns(".*cache", ".venv*", ".interop*", "__pycache__")
        shutil.copytree(ROOT, target, ignore=left_out)
        return
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())


@pytest.fixture(scope="module")
def wheel(distributions):
    (found,) = distributions.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel alone in a new environment, and return its interpreter.

    Later tests also install Spark there.
    """
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", environment, cwd=environment)
    python = environment / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=environment)
    return python


@pytest.fixture(scope="module")
def installed_with_spark(wheel, installed, tmp_path_factory):
    # With the libraries of this run, since the oldest Spark is tested with old ones.
    versions = {name: version(name) for name in ("pyspark", "pyarrow", "numpy", "pandas")}
    packages = [f"{wheel}[spark]", *(f"{name}=={found}" for name, found in versions.items())]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    run(installed, "-m", "pip", "install", "--quiet", *packages, cwd=elsewhere)
    return installed


def files_of(root):
    """Return the files below a directory, except those that Python or setuptools create."""
    made = ("__pycache__", ".egg-info")
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(p.relative_to(root)) for p in files if not any(m in str(p) for m in made)}


@pytest.mark.newest_spark
def test_the_wheel_holds_the_packages(distributions, wheel):
    source = distributions / "source"
    packages = [source / "splitlib", *source.glob("con*/splitlib_*")]
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        described = archive.read(metadata).decode()
    assert packed == {f"{root.name}/{name}" for root in packages for name in files_of(root)}
    assert "\nProject-URL: Changelog, https://" in described


@pytest.mark.newest_spark
def test_the_core_alone(installed, tmp_path):
    run(installed, "-c", CORE_ALONE, cwd=tmp_path)
    run(installed.with_name("splitlib"), "config", "--json", cwd=tmp_path)


@pytest.mark.newest_spark
def test_a_packed_environment(distributions, tmp_path):
    lines = "".join(blocks("docs/platforms.md", "console")).splitlines()
    *packing, doctor = (line.removeprefix("$ ") for line in lines)
    (tmp_path / "splitlib").symlink_to(distributions / "source")
    python = f'python3() {{ {sys.executable} "$@"; }}'
    run("bash", "-euc", "\n".join([python, *packing]), cwd=tmp_path)
    # The platform has neither the environment that was packed nor the checkout.
    shutil.rmtree(tmp_path / "job")
    (tmp_path / "splitlib").unlink()
    place = tmp_path / "environment/lib"
    assert f"from {place}" in run("bash", "-euc", doctor, cwd=tmp_path)


def test_with_spark(installed_with_spark, tmp_path):
    run(installed_with_spark, "-c", PRUNED_READ, cwd=tmp_path)


@pytest.mark.newest_spark
def test_types_for_users(installed_with_spark, tmp_path):
    (tmp_path / "user.py").write_text(TYPED)
    cache = ["--cache-dir", tmp_path / "cache"]
    mypy = [sys.executable, "-m", "mypy", "--strict", *cache, "--python-executable"]
    assert "Success" in run(*mypy, installed_with_spark, "user.py", cwd=tmp_path)


@pytest.mark.newest_spark
def test_the_tests_run_from_the_sdist(distributions, tmp_path):
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    for name in ("benchmarks", "conformance", "connectors", "docs", "splitlib", "tests"):
        assert files_of(unpacked / name) == files_of(distributions / "source" / name)
    top_level = {path.name for path in unpacked.iterdir()}
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"} <= top_level
    pytest_there = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # Running all tests again is not needed. Collecting them already imports every test module.
    assert " tests collected" in run(*pytest_there, "--collect-only", cwd=unpacked)
    in_unit = ("test_config.py", "test_rules.py", "filtering/test_predicate.py")
    some = [f"tests/unit/{name}" for name in in_unit]
    assert " passed" in run(*pytest_there, *some, "tests/conformance/test_files.py", cwd=unpacked)
