"""The modules of a source tree as values: their lines, syntax trees, comments and imports."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

Places = dict[str, list[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Module:
    """One source file: its name below ``holdfast``, its lines and its syntax tree."""

    def __init__(self, path: Path, source: Path) -> None:
        parts = path.relative_to(source).with_suffix("").parts[1:]
        self.is_package = path.stem == "__init__"
        self.parts = parts[:-1] if self.is_package else parts
        self.name = ".".join(self.parts)
        self.text = path.read_text()
        self.lines = self.text.splitlines()
        self.tree = ast.parse(self.text)
        self.nodes = list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> frozenset[str]:
        """Names below ``holdfast`` in import statements, modules or not."""
        return frozenset(self._imports())

    def _imports(self) -> Iterator[str]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name.removeprefix("holdfast.") for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
                package = (node.module or "").removeprefix("holdfast").removeprefix(".")
                yield package
                yield from (f"{package}.{alias.name}".removeprefix(".") for alias in node.names)

    def logical_lines(self) -> int:
        """Number of statements without docstrings."""
        statements = sum(isinstance(node, ast.stmt) for node in self.nodes)
        return statements - sum(1 for node in self.nodes if _is_text(node))

    def functions(self) -> Iterator[tuple[int, str]]:
        """Yield functions and methods: lines from ``def`` to the end, and ``module: name``."""
        for node in self.nodes:
            if isinstance(node, Function):
                yield line_count(node), f"{self.name}: {node.name}"

    def comment_lines(self) -> int:
        """Number of lines that consist of a comment."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        comments = (token for token in tokens if token.type == tokenize.COMMENT)
        return sum(comment.line.lstrip().startswith("#") for comment in comments)

    def docstring_lines(self) -> tuple[int, int]:
        """Return the lines of docstrings: of modules, classes and functions; of attributes."""
        owners = [node.body[0] for node in self.nodes if isinstance(node, DOCUMENTED) and node.body]
        first = sum(line_count(node) for node in owners if _is_text(node))
        every = sum(line_count(node) for node in self.nodes if _is_text(node))
        return first, every - first


def line_count(node: ast.stmt) -> int:
    """Return the number of lines of a statement."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def read_modules(source: Path) -> list[Module]:
    """Return the modules of ``holdfast`` below a folder, without generated ones."""
    paths = sorted(source.glob("holdfast/**/*.py"))
    return [Module(path, source) for path in paths if "_pb2" not in path.stem]


def single_importers(modules: list[Module]) -> dict[str, str]:
    """Return the modules that exactly one other module imports, with their importer."""
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.imports:
            importers[name].add(module.name or "holdfast")
    plain = (m.name for m in modules if not m.is_package)
    return {name: next(iter(importers[name])) for name in plain if len(importers[name]) == 1}


def loose_modules(modules: list[Module]) -> list[str]:
    """Return the modules at the top, without ``__main__``."""
    top = (m.name for m in modules if len(m.parts) == 1 and not m.is_package)
    return [name for name in top if name != "__main__"]


def fan_out(modules: list[Module]) -> Places:
    """Return the packages at the top, with the other packages and modules at the top they import.

    Loose modules count too, so that moving them into one package shows as a smaller fan-out.
    """
    top = {m.parts[0] for m in modules if m.parts}
    imported: dict[str, set[str]] = {m.name: set() for m in modules if m.is_package and m.name}
    packages = {name: names for name, names in imported.items() if "." not in name}
    for module in modules:
        if module.parts and module.parts[0] in packages:
            names = {name.split(".")[0] for name in module.imports}
            packages[module.parts[0]] |= names & top - {module.parts[0]}
    return {name: sorted(names) for name, names in packages.items()}


def repeated_classes(modules: list[Module]) -> Places:
    """Return the names of public classes that several modules define."""
    places: Places = defaultdict(list)
    for module in modules:
        for name in {node.name for node in module.nodes if isinstance(node, ast.ClassDef)}:
            if not name.startswith("_"):
                places[name].append(module.name)
    return {name: places[name] for name in sorted(places) if len(places[name]) > 1}


def ambiguous_names(modules: list[Module]) -> Places:
    """Return names of classes and type aliases at module level with several definitions."""
    places: Places = defaultdict(list)
    meanings: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for node in module.tree.body:
            match node:
                case ast.ClassDef(name=name):
                    meaning = module.name
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript()):
                    meaning = ast.unparse(node.value)
                case _:
                    continue
            if name[0].isupper() and not name.isupper():
                places[name].append(module.name)
                meanings[name].add(meaning)
    return {name: places[name] for name in sorted(places) if len(meanings[name]) > 1}


def aliases(modules: list[Module], meaning: str) -> list[str]:
    """Return the type aliases of a type, ``dict[str, Any]`` for one, as ``module: name``."""
    return [
        f"{m.name}: {ast.unparse(node).split()[0]}"
        for m in modules
        for node in m.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and ast.unparse(node.value) == meaning
    ]
