"""Compare the planning of a Delta table with deltalake's: ``python -m benchmarks.delta``.

The table has 100,000 files with statistics in a checkpoint. Each measurement opens the table in a
process of its own, and selects the 30 files of one partition, or of one value of a data column. The
files themselves do not exist, because only the log is read.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

FILES, MATCHING, REPEAT = 100_000, 30, 5
DAY = 1_234
UUID = "6f5d9d0c-5c3f-4d5e-9a53-0a7a7a1b0f4e"


def build(root: Path) -> None:
    """Write the log."""
    import deltalake

    columns = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in COLUMNS]
    schema = json.dumps({"type": "struct", "fields": columns})
    details = {"id": "1", "format": {"provider": "parquet", "options": {}}, "configuration": {}}
    entries = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**details, "schemaString": schema, "partitionColumns": ["day"]}},
        *({"add": _file(number)} for number in range(FILES)),
    ]
    log = root / "_delta_log"
    log.mkdir(parents=True)
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (log / f"{0:020}.json").write_text(lines)
    deltalake.DeltaTable(str(root)).create_checkpoint()


COLUMNS = (*(f"c{number}" for number in range(10)), "day")


def _file(number: int) -> dict[str, object]:
    day = number // MATCHING
    lower, upper = ({f"c{i}": day * 10 + i + add for i in range(10)} for add in (0, 9))
    known = {"numRecords": 1000, "minValues": lower, "maxValues": upper}
    known["nullCount"] = dict.fromkeys(lower, 0)
    return {
        "path": f"day={day}/part-{number:05}-{UUID}.c000.snappy.parquet",
        "partitionValues": {"day": str(day)},
        "size": 1_000_000,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps(known),
    }


def _ours(root: str, column: str, value: int) -> int:
    import splitlib

    with splitlib.load_table(root, connector="delta") as table:
        enumerator = splitlib.DynamicFileEnumerator(table)
        data = splitlib.DynamicFilteringData.from_values({column: [value]})
        enumerator.set_dynamic_filtering_data(data)
        return len(list(enumerator.enumerate_splits()))


def _theirs(root: str, column: str, value: int) -> int:
    import deltalake

    table = deltalake.DeltaTable(root)
    return len(table.file_uris(file_pruning_predicate=f"{column} = {value}"))


CONTENDERS: dict[str, Callable[[str, str, int], int]] = {
    "deltalake, `file_uris`": _theirs,
    "splitlib": _ours,
}


def _measured(name: str, root: str, column: str, value: int) -> tuple[float, float]:
    """Run a contender in a process of its own. Return seconds, and growth of memory in MiB."""
    command = [sys.executable, "-m", "benchmarks.delta", name, root, column, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, mebibytes = map(float, done.stdout.split())
    return seconds, mebibytes


def _run_one(name: str, root: str, column: str, value: int) -> None:
    import deltalake  # noqa: F401 - imports are not measured
    import pyarrow.dataset  # noqa: F401

    import splitlib_delta  # noqa: F401

    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    start = time.perf_counter()
    found = CONTENDERS[name](root, column, value)
    seconds = time.perf_counter() - start
    if found != MATCHING:
        raise RuntimeError(f"{found} files, {MATCHING} expected")
    print(seconds, (_status("VmHWM") - before) / 1024)


def _status(name: str) -> int:
    """Return a value of Linux's process status, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    """Print a table of all measurements."""
    keys = {"partition column": ("day", DAY), "data column": ("c3", DAY * 10 + 5)}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "table"
        build(root)
        print("| key of a | planned by | seconds | MiB |\n|---|---|---:|---:|")
        samples: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(REPEAT):
            for kind, (column, value) in keys.items():
                for name in CONTENDERS:
                    sample = _measured(name, str(root), column, value)
                    samples.setdefault((kind, name), []).append(sample)
        for (kind, name), found in samples.items():
            seconds, memory = zip(*found, strict=True)
            times = f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"
            print(f"| {kind} | {name} | {times} | {statistics.median(memory):.0f} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _run_one(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
