"""Mutants of a module: copies of its source, each with one small bug.

Code that does not affect results is not mutated: annotations, decorators, docstrings, error texts,
log messages, and the ``strict`` argument of ``zip``.
"""

from __future__ import annotations

import ast
import difflib
import itertools
from collections.abc import Iterator
from typing import NamedTuple

_COMPARED: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_COMPUTED: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "*",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
_CLOSED = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant
"""Kinds of expressions that need no parentheses inside other expressions."""
_OPPOSITE = {"any": "all", "all": "any", "min": "max", "max": "min"}
_COMMUTING = {
    *("max", "min"),
    *("pc.add", "pc.and_", "pc.and_kleene", "pc.equal", "pc.multiply", "pc.or_", "pc.or_kleene"),
}
_MESSAGE_WORDS = 3
# Arguments of these calls are not mutated. The last three calls use them in error texts only.
_NOT_MUTATED = {"TypeVar", "isinstance", "decoding", "readable_metadata", "reading"}


class Mutant(NamedTuple):
    """One changed version of a module."""

    line: int
    """Line number of the change in the original module."""
    statement: int | None
    """First line of the changed statement. None if the change is outside of functions."""
    operator: str
    source: str
    """Source of the whole module with the change."""

    def diff(self, original: str) -> str:
        """Return the old lines with the prefix ``-`` and the new lines with ``+``."""
        lines = difflib.unified_diff(original.splitlines(), self.source.splitlines(), n=0)
        return "\n".join(line for line in itertools.islice(lines, 2, None) if line[0] != "@")


def mutants_of(source: str) -> list[Mutant]:
    """Return all mutants of a module in the order of their lines, without duplicates."""
    text = _Text(source)
    found: dict[str, Mutant] = {}
    for node, operator, replacement, statement in _changes(ast.parse(source), text):
        changed = text.replaced(node, replacement)
        found.setdefault(changed, Mutant(node.lineno, statement, operator, changed))
    found.pop(source, None)  # a replacement such as ``return False`` may equal the original
    return sorted(found.values(), key=lambda mutant: mutant.line)


_Node = ast.expr | ast.stmt
_Change = tuple[_Node, str, str]
_Placed = tuple[_Node, str, str, int | None]


class _Text:
    """A source text as bytes, because an AST counts columns in bytes."""

    def __init__(self, source: str) -> None:
        self._bytes = source.encode()
        lines = self._bytes.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(map(len, lines))]

    def of(self, node: _Node) -> str:
        """Return the text of an expression, in parentheses if another expression requires them."""
        start, end = self._span(node)
        written = self._bytes[start:end].decode()
        return written if isinstance(node, _CLOSED) else f"({written})"

    def replaced(self, node: _Node, replacement: str) -> str:
        start, end = self._span(node)
        return (self._bytes[:start] + replacement.encode() + self._bytes[end:]).decode()

    def _span(self, node: _Node) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )


def _changes(
    node: ast.AST, text: _Text, returns: str | None = None, statement: int | None = None
) -> Iterator[_Placed]:
    """Yield all replacements for a node and for the nodes below it.

    Args:
        node: The node to mutate.
        text: Source of the module.
        returns: Return annotation of the enclosing function. None outside of functions.
        statement: First line of the enclosing statement. None outside of statements.
    """
    if isinstance(node, ast.stmt | ast.ExceptHandler):
        statement = node.lineno
    for place, operator, replacement in [
        *_of_statement(node, returns),
        *_of_expression(node, text),
    ]:
        yield place, operator, replacement, None if returns is None else statement
    for child in _below(node):
        inside = isinstance(node, ast.FunctionDef) and child in node.body
        yield from _changes(child, text, _returns(node) if inside else returns, statement)


def _returns(function: ast.AST) -> str:
    assert isinstance(function, ast.FunctionDef)
    return ast.unparse(function.returns) if function.returns else ""


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the child nodes that may be mutated."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log")))):
            return
        case ast.Call(func=ast.Name(id=name)) if name in _NOT_MUTATED:
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "pattern"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg in ("strict", "hint"):
                continue
            if isinstance(child, ast.AST):
                yield child


def _of_statement(node: ast.AST, returns: str | None) -> Iterator[_Change]:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log")))):
            pass
        case (
            ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom())
            | ast.AugAssign()
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_])
            | ast.Raise()
            | ast.Continue()
            | ast.Break()
            | ast.Delete()
        ):
            yield node, "statement removed", "pass"
        case ast.Return(value=ast.expr()) if returns == "bool":
            yield node, "result", "return True"
            yield node, "result", "return False"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield node, "result", "return None"
        case ast.ExceptHandler(type=ast.expr() as caught):
            yield caught, "handler removed", "()"


def _of_expression(node: ast.AST, text: _Text) -> Iterator[_Change]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield from _negated(test, text)
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield from _negated(test, text)
        case ast.match_case(guard=ast.expr() as test):
            yield from _negated(test, text)
        case ast.Compare(left=left, ops=ops, comparators=others):
            for at, operator in enumerate(ops):
                for other in _COMPARED[type(operator)]:
                    symbols = [_symbol(each) for each in ops]
                    symbols[at] = other
                    pairs = zip(symbols, map(text.of, others), strict=True)
                    rest = " ".join(f"{symbol} {operand}" for symbol, operand in pairs)
                    yield node, "comparison", f"({text.of(left)} {rest})"
        case ast.BoolOp(op=operator, values=values):
            word = " or " if isinstance(operator, ast.And) else " and "
            yield node, "and or", f"({word.join(map(text.of, values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, "not dropped", text.of(operand)
        case ast.BinOp(left=ast.JoinedStr()) | ast.BinOp(right=ast.JoinedStr()):
            pass  # strings do not support the replacing operators
        case ast.BinOp(left=ast.Constant(value=str())) | ast.BinOp(right=ast.Constant(value=str())):
            pass
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _COMPUTED:
            computed = f"({text.of(left)} {_COMPUTED[type(operator)]} {text.of(right)})"
            yield node, "operator", computed
        case ast.Name(id=name, ctx=ast.Load()) if name in _OPPOSITE:
            yield node, "function", _OPPOSITE[name]
        case ast.Constant(value=value):
            if (changed := _other_constant(value)) is not None:
                yield node, "constant", repr(changed)
        case ast.Call():
            yield from _of_call(node, text)


def _negated(test: ast.expr, text: _Text) -> Iterator[_Change]:
    """Yield the negation of a condition, except of a single comparison and of a ``not``.

    Other replacements already negate these two.
    """
    one = isinstance(test, ast.Compare) and len(test.ops) == 1
    if not one and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        yield test, "condition negated", f"(not {text.of(test)})"


def _of_call(call: ast.Call, text: _Text) -> Iterator[_Change]:
    function = ast.unparse(call.func)
    if function in _NOT_MUTATED:
        return
    arguments = [_argument(each, text) for each in call.args]
    named = [
        f"{k.arg}={text.of(k.value)}" if k.arg else f"**{text.of(k.value)}" for k in call.keywords
    ]
    commute = function in _COMMUTING
    if (
        len(arguments) > 1
        and not commute
        and not any(isinstance(each, ast.Starred) for each in call.args[:2])
    ):
        swapped = [arguments[1], arguments[0], *arguments[2:], *named]
        yield call, "arguments swapped", f"{text.of(call.func)}({', '.join(swapped)})"
    for at, keyword in enumerate(call.keywords):
        if keyword.arg not in (None, "strict", "hint"):
            others = [*arguments, *named[:at], *named[at + 1 :]]
            yield call, "argument removed", f"{text.of(call.func)}({', '.join(others)})"


def _argument(node: ast.expr, text: _Text) -> str:
    return f"*{text.of(node.value)}" if isinstance(node, ast.Starred) else text.of(node)


def _keyword(keyword: ast.keyword, text: _Text) -> str:
    value = text.of(keyword.value)
    return f"{keyword.arg}={value}" if keyword.arg else f"**{value}"


def _other_constant(value: object) -> object:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if len(value.split()) < _MESSAGE_WORDS:
            return value + "~"
        case bytes():
            return value + b"~"
    return None


def _symbol(operator: ast.cmpop) -> str:
    compare = ast.Compare(ast.Name("a"), [operator], [ast.Name("b")])
    return ast.unparse(compare).removeprefix("a ").removesuffix(" b")
