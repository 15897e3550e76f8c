"""Make small wrong changes of a Python file, each of which some test should detect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FLIPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
_TABLES = (ast.Dict, ast.Set, ast.List, ast.Tuple)
_SMALLEST_PAIR = 3
"""A tuple with fewer entries counts as a key, not as a table."""
_LOGGERS = ("_log", "log", "logger")
_UNREAD = ("__repr__", "__str__")
_CHECKED = "strict"
"""Arguments of ``zip`` that are not changed: both sides have equal lengths."""
_DECLARING = ("field", "TypeVar", "ParamSpec")


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the bytes from ``start`` to ``end`` become ``text``."""

    file: str
    line: int
    start: int
    end: int
    text: str
    function: str
    """Dotted names of the classes and functions around the change, "" at module level."""
    before: str
    """The changed line, or the expression, statement or entry if it has several lines."""
    after: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Identity of the change that does not depend on line numbers."""
        return self.file, self.function, self.before, self.after

    def apply(self, source: bytes) -> bytes:
        """Return the source with the change."""
        return source[: self.start] + self.text.encode() + source[self.end :]


class Changes:
    """Find the changes of one file."""

    def __init__(self, file: str, source: bytes) -> None:
        self._file = file
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._where: list[str] = []

    def __iter__(self) -> Iterator[Mutant]:
        yield from self._body(ast.parse(self._source).body)

    def _body(self, body: list[ast.stmt]) -> Iterator[Mutant]:
        for statement in body:
            yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[Mutant]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name not in _UNREAD:
                self._where.append(node.name)
                yield from self._body(node.body)
                self._where.pop()
            return
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert) or _is_text(node):
            return
        inside = any(not name[:1].isupper() for name in self._where)
        if not inside:
            yield from self._module_level(node)
            return
        if _can_go(node):
            yield self._change(node, "pass")
        for name in ("test", "value", "targets", "target", "iter", "exc", "items", "subject"):
            yield from self._expressions(getattr(node, name, None))
        if isinstance(node, ast.If) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield self._change(node.test, f"not ({self._text(node.test)})")
        for block in _blocks(node):
            yield from self._body(block)

    def _module_level(self, node: ast.stmt) -> Iterator[Mutant]:
        """Change tables and constants, but not ``__all__`` and type aliases."""
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            if isinstance(node.value, ast.Call) and self._text(node.value.func) in _DECLARING:
                return
            first = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if not self._text(first).startswith("__") and not _is_type_name(self._text(first)):
                yield from self._expressions(node.value)
                yield from self._entries(node.value)

    def _entries(self, root: ast.expr) -> Iterator[Mutant]:
        """Remove or change one entry of a table, and change texts in it."""
        for node in _walk(root):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
                if not isinstance(node, ast.JoinedStr):
                    yield self._change(node, repr(node.value + "-"))
            elif isinstance(node, _TABLES):
                yield from self._without(node)
            elif isinstance(node, ast.Call):
                yield from self._without_keyword(node)

    def _without(self, table: ast.expr) -> Iterator[Mutant]:
        spans = []
        if isinstance(table, ast.Dict):
            pairs = zip(table.keys, table.values, strict=True)
            spans = [(self._at(k or v)[0] - (0 if k else 2), self._at(v)[1]) for k, v in pairs]
        elif isinstance(table, ast.Set | ast.List | ast.Tuple):
            spans = [self._at(entry) for entry in table.elts]
        fewest = _SMALLEST_PAIR if isinstance(table, ast.Tuple) else 2
        if len(spans) >= fewest:
            for number, (start, end) in enumerate(spans):
                yield self._cut(table, spans, number, start, end)

    def _without_keyword(self, call: ast.Call) -> Iterator[Mutant]:
        found = [*call.args, *(k for k in call.keywords if k.arg and k.arg != _CHECKED)]
        if any(k.arg is None for k in call.keywords):
            return
        spans = [self._at(entry) for entry in found]
        for number, entry in enumerate(found):
            if isinstance(entry, ast.keyword) and len(found) > 1:
                yield self._cut(call, spans, number, *spans[number])

    def _cut(
        self, node: ast.expr, spans: list[tuple[int, int]], number: int, start: int, end: int
    ) -> Mutant:
        """Remove one span together with its comma."""
        if number + 1 < len(spans):
            cut = (start, spans[number + 1][0])
        else:
            cut = (spans[number - 1][1], end)
        entry = " ".join(self._source[start:end].decode().split())
        line = self._source.count(b"\n", 0, start) + 1
        return Mutant(self._file, line, *cut, "", ".".join(self._where), entry, "(no entry)")

    def _expressions(self, root: object) -> Iterator[Mutant]:
        if isinstance(root, list):
            for one in root:
                yield from self._expressions(one)
        elif isinstance(root, ast.withitem):
            yield from self._expressions(root.context_expr)
        elif isinstance(root, ast.expr):
            for node in _walk(root):
                yield from self._expression(node)

    def _expression(self, node: ast.expr) -> Iterator[Mutant]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = self._text(node.left), self._text(node.comparators[0])
            yield self._change(node, f"{left} {_FLIPPED[type(node.ops[0])]} {right}")
        elif isinstance(node, ast.BoolOp):
            word = "or" if isinstance(node.op, ast.And) else "and"
            parts = [f"({self._text(value)})" for value in node.values]
            yield self._change(node, f" {word} ".join(parts))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield self._change(node, f"({self._text(node.operand)})")
        elif isinstance(node, ast.IfExp):
            yield self._change(node.test, f"not ({self._text(node.test)})")
        elif isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            left, right = self._text(node.left), self._text(node.right)
            if not _is_text_constant(node.left) and not _is_text_constant(node.right):
                yield self._change(node, f"{left} {_SIGNS[type(node.op)]} {right}")
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)

    def _constant(self, node: ast.Constant) -> Iterator[Mutant]:
        if isinstance(node.value, bool):
            yield self._change(node, str(not node.value))
        elif isinstance(node.value, int | float):
            yield self._change(node, str(node.value + 1))
            if node.value > 0:
                yield self._change(node, str(node.value - 1))

    def _change(self, node: ast.AST, text: str) -> Mutant:
        """Replace a node; reports show its line, or the node itself if it has several lines."""
        start, end = self._at(node)
        line = self._source.count(b"\n", 0, start) + 1
        first, last = start, end
        if b"\n" not in self._source[start:end]:
            first, last = self._starts[line - 1], self._starts[line]
        text = _joined(text, node)
        before = self._source[first:last].decode()
        after = self._source[first:start].decode() + text + self._source[end:last].decode()
        return Mutant(self._file, line, start, end, text, ".".join(self._where),
                      " ".join(before.split()), " ".join(after.split()))  # fmt: skip

    def _at(self, node: ast.AST) -> tuple[int, int]:
        first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        return (self._starts[first - 1] + node.col_offset,  # type: ignore[attr-defined]
                self._starts[last - 1] + node.end_col_offset)  # type: ignore[attr-defined] # fmt: skip

    def _text(self, node: ast.AST) -> str:
        start, end = self._at(node)
        return self._source[start:end].decode()


def changes_of(root: Path, file: str) -> list[Mutant]:
    """Return all changes of a file below ``root``; some of them may not compile."""
    found = {(m.start, m.end, m.text): m for m in Changes(file, (root / file).read_bytes())}
    return list(found.values())


def is_change(mutant: Mutant, source: bytes) -> bool:
    """Tell whether the changed file compiles and differs in its syntax tree."""
    try:
        changed = ast.parse(mutant.apply(source))
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(source))


def _joined(text: str, node: ast.AST) -> str:
    """Put an expression in parentheses if the change splits it into two operators."""
    is_compound = isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp)
    return f"({text})" if is_compound else text


def _walk(root: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions below one, without annotations and parts of f-strings."""
    if isinstance(root, ast.JoinedStr):
        return
    yield root
    for child in ast.iter_child_nodes(root):
        if isinstance(child, ast.expr):
            yield from _walk(child)
        elif isinstance(child, ast.keyword) and child.arg != _CHECKED:
            yield from _walk(child.value)
        elif isinstance(child, ast.comprehension):
            for part in (child.iter, *child.ifs):
                yield from _walk(part)


def _can_go(node: ast.stmt) -> bool:
    """Tell whether the code still compiles without a statement."""
    if isinstance(node, ast.Expr):
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        return isinstance(call, ast.Call) and not _is_logging(call)
    if isinstance(node, ast.Assign):
        return all(isinstance(t, ast.Attribute | ast.Subscript) for t in node.targets)
    return isinstance(node, ast.AugAssign | ast.Delete | ast.Raise | ast.Continue | ast.Break)


def _is_logging(call: ast.Call) -> bool:
    function = call.func
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and (
        function.value.id in _LOGGERS)  # fmt: skip


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_type_name(name: str) -> bool:
    """Tell whether a name is written like that of a class: then it is a type alias."""
    return name.lstrip("_")[:1].isupper() and not name.isupper()


def _is_text_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for handler in getattr(node, "handlers", []):
        yield handler.body
    for case in getattr(node, "cases", []):
        yield case.body
