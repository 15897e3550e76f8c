"""Measure the structure of the source: sizes, importers, shared names, the plugin contract.

    python tools/structure.py                      the working tree
    python tools/structure.py daaa5d5 . --verbose  two revisions (. is the working tree), with lists

Only src/holdfast is counted. A logical line is a statement of the syntax tree other than a
docstring, so that the layout of the code does not matter. Two rows depend on names, so read their
lists: attributes read from a plugin by ``getattr``, and functions that compare a request with free
resources.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from revisions import checkout

SMALL = 80
CONTRACT = r"framework\.(plugin|traits|preemption_support|fast_paths)\b"
"""Modules of the protocols that plugins implement."""
DECIDING = ("framework", "engine", "plugins", "capacity", "columns", "scheduler")
FREE = re.compile(r"free|slots|room|left|rest\b|remaining|helped|allocatable|have\b|enough")
WANTED = re.compile(r"amount|wanted|request|asked|need|demand|\b1\b")

Places = dict[str, list[str]]


class Module:
    """One source file: its name below ``holdfast``, its lines and its syntax tree."""

    def __init__(self, path: Path, source: Path) -> None:
        parts = path.relative_to(source).with_suffix("").parts[1:]
        self.is_package = path.stem == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.lines = path.read_text().splitlines()
        self.tree = ast.parse("\n".join(self.lines))
        self.nodes = list(ast.walk(self.tree))

    def imports(self) -> Iterator[str]:
        """Names below ``holdfast`` in import statements, modules or not."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name.removeprefix("holdfast.") for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
                package = (node.module or "").removeprefix("holdfast").removeprefix(".")
                yield package
                yield from (f"{package}.{alias.name}".removeprefix(".") for alias in node.names)

    def logical_lines(self) -> int:
        """Number of statements without docstrings."""
        values = (node.value for node in self.nodes if isinstance(node, ast.Expr))
        texts = sum(isinstance(value, ast.Constant) for value in values)
        return sum(isinstance(node, ast.stmt) for node in self.nodes) - texts


def single_importers(modules: list[Module]) -> dict[str, str]:
    """Return the modules that exactly one other module imports, with that one."""
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.imports():
            importers[name].add(module.name or "holdfast")
    plain = (m.name for m in modules if not m.is_package)
    return {name: next(iter(importers[name])) for name in plain if len(importers[name]) == 1}


def ambiguous_classes(modules: list[Module]) -> Places:
    """Return public classes and type aliases that several modules define differently."""
    found: Places = defaultdict(list)
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
                found[name].append(module.name)
                meanings[name].add(meaning)
    return {name: found[name] for name in sorted(found) if len(meanings[name]) > 1}


def protocols(modules: list[Module]) -> list[str]:
    """Return the protocols that a plugin may implement."""
    contract = (m for m in modules if re.match(CONTRACT, m.name))
    classes = (n for m in contract for n in m.nodes if isinstance(n, ast.ClassDef))
    return [c.name for c in classes if any("Protocol" in ast.unparse(b) for b in c.bases)]


def duck_attributes(modules: list[Module]) -> Places:
    """Return attributes that are read from a plugin by ``getattr``, and where."""
    found: Places = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            match node:
                case ast.Call(func=ast.Name(id="getattr"), args=[of, ast.Constant(str(name)), *_]):
                    if re.search(r"plugin\b|pair\[0\]", ast.unparse(of)):
                        found[name].append(module.name)
    return dict(sorted(found.items()))


def fit_rules(modules: list[Module]) -> list[str]:
    """Return functions of the pure packages that compare a request with free resources."""
    return [
        f"{m.name}: {node.name}"
        for m in modules
        if m.name.startswith(DECIDING)
        for node in m.nodes
        if isinstance(node, ast.FunctionDef) and any(map(_compares_request, ast.walk(node)))
    ]


def _compares_request(node: ast.AST) -> bool:
    """Tell whether a node is ``free < amount`` or the like, by the names on both sides."""
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[right]):
            return bool(re.search("backed|waived|ignored_if_absent", ast.unparse(right)))
        case ast.Compare(left=left, ops=[ast.Lt() | ast.GtE()], comparators=[right]):
            return bool(FREE.search(ast.unparse(left)) and WANTED.search(ast.unparse(right)))
    return False


def places(modules: list[Module], pattern: str) -> list[str]:
    """Return the lines that match, as ``module:line``."""
    numbered = ((m.name, i, line) for m in modules for i, line in enumerate(m.lines, 1))
    return [f"{name}:{i}" for name, i, line in numbered if re.search(pattern, line)]


def measure(source: Path) -> dict[str, object]:
    """Return the rows of the table: a figure, or the list of what is counted."""
    modules = [Module(path, source) for path in sorted(source.glob("holdfast/**/*.py"))]
    sizes = [len(m.lines) for m in modules]
    lines = dict(zip((m.name for m in modules), sizes, strict=True))
    single = single_importers(modules)
    return {
        "files": str(len(modules)),
        "lines": str(sum(sizes)),
        "logical lines": str(sum(m.logical_lines() for m in modules)),
        "lines a file, median / p90 / max": (
            f"{median(sizes):.0f} / {quantiles(sizes, n=10)[-1]:.0f} / {max(sizes)}"
        ),
        "modules with a single importer": single,
        f"  of these under {SMALL} lines": [name for name in single if lines[name] < SMALL],
        "class names with several meanings": ambiguous_classes(modules),
        "protocols of the plugin contract": protocols(modules),
        "attributes read from plugins by getattr": duck_attributes(modules),
        "functions that compare a request with free resources": fit_rules(modules),
        "places that read a kind's group and resource": places(
            modules, r"\b(served\.id|descriptor\.group_resource)\b"
        ),
        "# fmt: skip": places(modules, "# fmt: skip"),
        "type: ignore": places(modules, "# type: ignore"),
    }


def figure(counted: object) -> str:
    """Return the text of a row's figure."""
    return counted if isinstance(counted, str) else str(len(counted))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", nargs="*", default=["."], help="one or more; . is the worktree")
    parser.add_argument(
        "--verbose", action="store_true", help="list what the rows of the last revision count"
    )
    args = parser.parse_args()
    tables = []
    for revision in args.revision:
        with checkout(revision, "src") as root:
            tables.append(measure(root / "src"))
    print(f"{'':44}" + "".join(f"{revision:>18}" for revision in args.revision))
    for row, counted in tables[-1].items():
        print(f"{row:44}" + "".join(f"{figure(table[row]):>18}" for table in tables))
        if args.verbose and not isinstance(counted, str):
            for item in counted:
                print("   ", f"{item}: {counted[item]}" if isinstance(counted, dict) else item)


if __name__ == "__main__":
    main()
