"""What pip installs works: the wheel, in an environment of its own, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pyspark
import pytest

from tests.integration.conftest import SHORT_LIVED_JAVA

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]

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
assert splitlib.explain(found).scans[0].partitions_kept == 1, str(splitlib.explain(found))
assert found.count() == 10
print("pruned twice")
"""


def run(*command, cwd):
    # nothing of the checkout, nor of the session of the tests, in its environment
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
    # made of a copy: setuptools leaves directories of its own beside what it packs
    made = tmp_path_factory.mktemp("distributions")
    source = made / "source"
    source.mkdir()
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--outdir", made, source, cwd=made)
    return made


def test_the_wheel_alone(distributions, tmp_path):
    (wheel,) = distributions.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    packages = [f"{wheel}[spark]", f"pyspark=={pyspark.__version__}"]
    run(python, "-m", "pip", "install", "--quiet", *packages, cwd=tmp_path)
    assert "pruned twice" in run(python, "-c", PRUNED_READ, cwd=tmp_path)


def test_the_tests_run_from_the_sdist(distributions, tmp_path):
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    top_level = {path.name for path in unpacked.iterdir()}
    assert {"CHANGELOG.md", "docs", "benchmarks", "setup.cfg"} <= top_level
    shipped = {p.relative_to(unpacked) for p in (unpacked / "tests").rglob("*.*")}
    tracked = {p.relative_to(ROOT) for p in (ROOT / "tests").rglob("*.*") if p.suffix != ".pyc"}
    assert tracked == shipped
    # the rest of them is what runs here already
    done = run(
        sys.executable, "-m", "pytest", "-q", "tests/unit/filtering/test_predicate.py", cwd=unpacked
    )
    assert " passed" in done
