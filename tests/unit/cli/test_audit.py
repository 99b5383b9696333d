"""The command ``splitlib audit``: files with queries, output and exit codes; without Spark."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from splitlib.cli import main
from splitlib.cli import tables as command
from splitlib.report import Count
from splitlib.spark.audit import Audit, AuditedJoin, AuditedQuery, AuditedTable

PRUNES = AuditedJoin("f.day = d.id", True, "its keys prune by day.")
BY_ITEM = AuditedJoin("f.item = i.id", False, "the table is not partitioned by item.", ("item",))
PRUNED = AuditedTable(
    "db.sales", ("day",), (PRUNES, BY_ITEM), Count(3, 1000), Count(), Count(2**20, 2**30), True
)
WHOLE = AuditedTable("db.<sales>", ("day",), (BY_ITEM,), Count(1000, 1000))


def audit_of(*tables: AuditedTable, reason: str | None = None) -> Audit:
    return Audit((AuditedQuery("q", tables, reason, is_error=reason is not None),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\n\n SELECT 2 ;", ["SELECT 1", "SELECT 2"]),
        ("-- one; two\nSELECT ';' AS `a;b`, \";\" /* ; */ FROM t", None),
        ("SELECT 'it\\';s' ; SELECT 4/2-1", ["SELECT 'it\\';s'", "SELECT 4/2-1"]),
        ("-- only a comment;\n", []),
        (";;", []),
        ("SELECT 'not closed ; ", ["SELECT 'not closed"]),
    ],
)
def test_statements(text: str, expected: list[str] | None) -> None:
    assert list(command.statements(text)) == ([text] if expected is None else expected)


def test_many_statements_take_little_time() -> None:
    text = "SELECT a - b / c FROM t WHERE x = 'y';\n" * 20_000
    assert len(list(command.statements(text))) == 20_000


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Replace the audit in Spark. The result has the queries that were audited."""
    seen: dict[str, str] = {}

    def audited(queries: Mapping[str, str], conf: Mapping[str, str], *, files: bool) -> Audit:
        seen.update(queries)
        seen["conf"] = f"{dict(conf)} {files}"
        return seen_audit[0]

    monkeypatch.setattr(command, "audited", audited)
    return seen


seen_audit = [audit_of(PRUNED)]


@pytest.mark.parametrize(
    ("audit", "arguments", "code"),
    [
        (audit_of(PRUNED), [], 0),
        (audit_of(PRUNED, WHOLE), [], 1),
        (audit_of(PRUNED, WHOLE), ["--fail-under", "50"], 0),
        (audit_of(PRUNED, WHOLE), ["--fail-under", "51"], 1),
        (audit_of(), [], 0),
        (audit_of(reason="ParseException: no"), ["--fail-under", "0"], 1),
    ],
)
def test_exit_codes(
    queries: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    audit: Audit,
    arguments: list[str],
    code: int,
) -> None:
    file = tmp_path / "q.sql"
    file.write_text("SELECT 1; SELECT 2")
    monkeypatch.setattr(sys.modules[__name__], "seen_audit", [audit])
    assert main(["audit", str(file), "--conf", "a.b=c", "--files", *arguments]) == code
    assert queries == {
        f"{file}#1": "SELECT 1", f"{file}#2": "SELECT 2", "conf": "{'a.b': 'c'} True"
    }  # fmt: skip
    assert capsys.readouterr().out.rstrip() == str(audit)


def test_standard_input_and_json(
    queries: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfSELECT 3")))
    assert main(["audit", "-", "--json"]) == 0
    assert queries["-"] == "SELECT 3"
    assert json.loads(capsys.readouterr().out) == seen_audit[0].to_dict()


@pytest.mark.usefixtures("queries")
def test_errors_of_the_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "q.sql"
    file.write_text("-- nothing")
    for arguments, message in [
        ([str(file)], "has no query"),
        ([f"{tmp_path}/none.sql"], "No such file"),
        ([str(file), "--json", "--html"], "contradict"),
        ([str(file), "--fail-under", "nan"], "nan is not a number from 0 to 100"),
        ([str(file), "--fail-under", "101"], "101 is not a number from 0 to 100"),
    ]:
        assert main(["audit", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_text_html_and_dict() -> None:
    audit = Audit(
        (
            AuditedQuery("a", (PRUNED, WHOLE)),
            AuditedQuery("b", (WHOLE,)),
            AuditedQuery("c", reason="the query has no join."),
            AuditedQuery("<d>", reason="ParseException: no", is_error=True),
        )
    )
    assert str(audit).splitlines() == [
        "a",
        "  db.sales: reads 3 of 1,000 partitions, about 1.0 MiB of 1.0 GiB",
        "    prunes - f.day = d.id: its keys prune by day.",
        "    does not prune - f.item = i.id: the table is not partitioned by item.",
        "  db.<sales>: not pruned",
        "    does not prune - f.item = i.id: the table is not partitioned by item.",
        "b",
        "  db.<sales>: not pruned",
        "    does not prune - f.item = i.id: the table is not partitioned by item.",
        "c",
        "  nothing to prune: the query has no join.",
        "<d>",
        "  not audited: ParseException: no",
        "4 queries; joins prune 1 of 3 tables",
        "partition or cluster db.<sales> by item: 2 queries",
    ]
    html = audit._repr_html_()
    assert html.count("<tr>") == 6
    assert "<sales>" not in html
    assert "<d>" not in html
    values = json.loads(json.dumps(audit.to_dict()))
    assert values["fixes"] == [{"table": "db.<sales>", "column": "item", "queries": 2}]
    assert round(values["pruned_percent"]) == 33
    (first, _) = values["queries"][0]["tables"]
    assert first["nbytes"] == {"matched": 2**20, "total": 2**30}
    assert first["can_be_pruned"]
    assert first["joins"][1]["fix"] == ["item"]
