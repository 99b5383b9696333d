"""The mutants of ``make mutants``, and the list of mutants that no test can detect."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tests.mutation.__main__ import equivalents, sample, sources
from tests.mutation.operators import mutants_of


def changes(source):
    """Return the operator and the changed line of each mutant of a function's body."""
    body = f"def f(a, b) -> int:\n{textwrap.indent(source, '    ')}\n"
    found = mutants_of(body)
    for mutant in found:
        ast.parse(mutant.source)
    return [(m.operator, m.source.splitlines()[m.line - 1].strip()) for m in found]


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("x = a < b", [("comparison", "x = (a <= b)"), ("comparison", "x = (a >= b)")]),
        ("x = 0 <= a", [("comparison", "x = (0 < a)"), ("comparison", "x = (0 > a)"),
                        ("constant", "x = 1 <= a")]),
        ("x = a or b", [("and or", "x = (a and b)")]),
        ("x = not a", [("not dropped", "x = a")]),
        ("x = a + b", [("operator", "x = (a - b)")]),
        ("x = any(a)", [("function", "x = all(a)")]),
        ("x = 'k'", [("constant", "x = 'k~'")]),
        ("a(1.5)", [("statement removed", "pass"), ("constant", "a(2.5)")]),
        ("x = a(b, *b)", []),
        ("x = max(a, b)", [("function", "x = min(a, b)")]),
        ("with decoding('File', a): pass", []),
        ("x = a(b, a)", [("arguments swapped", "x = a(a, b)")]),
        ("x = a(k=b)", [("argument removed", "x = a()")]),
        ("return a", [("result", "return None")]),
        ("a.b = 'é'; a += b", [("statement removed", "pass; a += b"),
                               ("constant", "a.b = 'é~'; a += b"),
                               ("statement removed", "a.b = 'é'; pass")]),
        ("if a and b: pass", [("condition negated", "if (not (a and b)): pass"),
                              ("and or", "if (a or b): pass")]),
        ("try: pass\nexcept OSError: pass", [("handler removed", "except (): pass")]),
        ("raise ValueError(f'{a} is 1')", [("statement removed", "pass")]),
        ("'''The text.'''", []),
        ("x: 'int' = a", []),
        ("x = zip(a, b, strict=True)", [("arguments swapped", "x = zip(b, a, strict=True)")]),
    ],
)  # fmt: skip
def test_the_mutants_of_a_statement(source, mutants):
    assert changes(source) == mutants


def test_a_predicate_is_made_to_say_both():
    source = "def f() -> bool:\n    return g(a)\n"
    made = {mutant.source.splitlines()[1].strip() for mutant in mutants_of(source)}
    assert made == {"return True", "return False"}
    (other,) = mutants_of("def f() -> bool:\n    return False\n")
    assert other.source == "def f() -> bool:\n    return True\n"


@pytest.mark.long
def test_a_sample_is_the_same_again_and_of_all_files():
    some = sample(300, 1)
    assert some == sample(300, 1)
    assert some != sample(300, 2)
    assert len({(task.file, task.mutant.source) for task in some}) == 300
    assert len({task.file for task in some}) > 50


def test_what_is_listed_as_equivalent_is_a_mutant():
    texts = sources()
    for (file, change), reason in equivalents().items():
        assert change in {m.diff(texts[file]).strip() for m in mutants_of(texts[file])}, file
        assert reason
