"""Measure the structure of the source: sizes, importers, shared names, the plugin contract.

    python tools/structure.py                      the working tree
    python tools/structure.py daaa5d5 . --verbose  two revisions (. is the working tree), with lists

The program counts src/holdfast without generated modules (``*_pb2*.py``), and for phrases also
README, CONTRIBUTING, CHANGELOG and docs. A logical line is a statement of the syntax tree other
than a docstring, so that the layout of the code does not matter. A function is counted from ``def``
to its last line. ``plugin_contract`` defines a point of the contract. Some rows depend on names, so
read their lists: attributes read from a plugin by ``getattr``, functions that compare a request
with free resources, and methods with a parameter ``state``.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles

from plugin_contract import Contract
from revisions import checkout
from source_modules import (
    Function,
    Module,
    Places,
    aliases,
    ambiguous_names,
    fan_out,
    loose_modules,
    read_modules,
    repeated_classes,
    single_importers,
)

SMALL = 80
LONG = 40
DECIDING = (
    "framework",
    "engine",
    "plugins",
    "capacity",
    "columns",
    "scheduler",
    "scheduling",
    "state",
)
CLASSIC_API = re.compile(r"classic\w*_pb2(_grpc)?$")
"""Generated modules, which are not among those that are read."""
FREE = re.compile(r"free|slots|room|left|rest\b|remaining|helped|allocatable|have\b|enough")
WANTED = re.compile(r"amount|wanted|request|asked|need|demand|\b1\b")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")
PHRASES = ("of its own", "beside", "After this page")
OUTCOMES = r"\bis (not )?[\w.]*\boutcomes\b"

Rows = dict[str, object]
"""A figure as text, or the list of what is counted, by the name of the row."""


def duck_attributes(modules: list[Module]) -> Places:
    """Return attributes that are read from a plugin by ``getattr``, and where."""
    read: Places = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            match node:
                case ast.Call(func=ast.Name(id="getattr"), args=[of, ast.Constant(str(name)), *_]):
                    if re.search(r"plugin\b|pair\[0\]", ast.unparse(of)):
                        read[name].append(module.name)
    return dict(sorted(read.items()))


def state_methods(modules: list[Module]) -> list[str]:
    """Return the methods below ``plugins`` that have a parameter ``state``."""
    classes = (
        (m.name, node)
        for m in modules
        if "plugins" in m.parts
        for node in m.nodes
        if isinstance(node, ast.ClassDef)
    )
    return [
        f"{name}: {node.name}.{method.name}"
        for name, node in classes
        for method in node.body
        if isinstance(method, Function)
        and any(a.arg.lstrip("_") == "state" for a in method.args.args)
    ]


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
    """Tell whether a node is a comparison such as ``free < amount``, by the names on both sides."""
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[right]):
            return bool(re.search("backed|waived|ignored_if_absent", ast.unparse(right)))
        case ast.Compare(left=left, ops=[ast.Lt() | ast.GtE()], comparators=[right]):
            return bool(FREE.search(ast.unparse(left)) and WANTED.search(ast.unparse(right)))
    return False


def calls(modules: list[Module], function: str) -> list[str]:
    """Return the calls of a function or class by its bare name, as ``module:line``."""
    return [
        f"{m.name}:{node.lineno}"
        for m in modules
        for node in m.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == function
    ]


def places(modules: list[Module], pattern: str) -> list[str]:
    """Return every match, as ``module:line``."""
    return [
        f"{m.name}:{m.text.count(chr(10), 0, match.start()) + 1}"
        for m in modules
        for match in re.finditer(pattern, m.text)
    ]


def classic_dra_importers(modules: list[Module]) -> list[str]:
    """Return the modules whose paths are outside of classic DRA and that import a part of it."""
    inside = {m.name for m in modules if "classic" in m.name}
    inside |= {name for m in modules for name in m.imports if CLASSIC_API.search(name)}
    return [m.name for m in modules if m.name not in inside and m.imports & inside]


def spread(sizes: list[int]) -> str:
    """Return median, ninetieth percentile and maximum as text."""
    return f"{median(sizes):.0f} / {quantiles(sizes, n=10)[-1]:.0f} / {max(sizes)}"


def share(part: int, whole: int) -> str:
    """Return a share in percent."""
    return f"{100 * part / whole:.1f} %"


def sizes(modules: list[Module]) -> Rows:
    """Return the rows about files, functions, comments and docstrings."""
    lines = [len(m.lines) for m in modules]
    functions = sorted((f for m in modules for f in m.functions()), reverse=True)
    documented = [m.docstring_lines() for m in modules]
    return {
        "files": str(len(modules)),
        "lines": str(sum(lines)),
        "logical lines": str(sum(m.logical_lines() for m in modules)),
        "lines a file, median / p90 / max": spread(lines),
        "lines a function, median / p90 / max": spread([length for length, _ in functions]),
        f"functions of more than {LONG} lines": [
            f"{length:4} {name}" for length, name in functions if length > LONG
        ],
        "lines that are comments": share(sum(m.comment_lines() for m in modules), sum(lines)),
        "lines of docstrings": share(sum(docstrings for docstrings, _ in documented), sum(lines)),
        "  and of attributes": share(
            sum(of_attributes for _, of_attributes in documented), sum(lines)
        ),
        "# fmt: skip": places(modules, "# fmt: skip"),
        "type: ignore": places(modules, "# type: ignore"),
    }


def shape(modules: list[Module]) -> Rows:
    """Return the rows about packages, imports and names that are used twice."""
    lines = {m.name: len(m.lines) for m in modules}
    single = single_importers(modules)
    packages = fan_out(modules)
    imported = [len(names) for names in packages.values()]
    return {
        "packages at the top": packages,
        "modules at the top": loose_modules(modules),
        "fan-out of a package, median / max": f"{median(imported):.0f} / {max(imported)}",
        "modules with a single importer": single,
        "  share of all": share(len(single), len(modules)),
        f"  of these under {SMALL} lines": [name for name in single if lines[name] < SMALL],
        "class names in several modules": repeated_classes(modules),
        "classes and aliases of several meanings": ambiguous_names(modules),
        "aliases of dict[str, Any]": aliases(modules, "dict[str, Any]"),
        "modules outside classic DRA that import it": classic_dra_importers(modules),
    }


def contract(modules: list[Module]) -> Rows:
    """Return the rows about plugins and the engine that calls them."""
    counted = Contract(modules)
    product = [m for m in modules if m.parts[:1] != ("testing",)]
    return {
        "points of the plugin contract": counted.points,
        "  with one implementer or none": counted.rarely_implemented(),
        "other protocols of the framework": counted.other_protocols,
        "calls of implements": calls(modules, "implements"),
        "methods of plugins that take a state": state_methods(modules),
        "attributes read from plugins by getattr": duck_attributes(modules),
        "functions that compare a request with free": fit_rules(modules),
        "places that make a View, without testing": calls(product, "View"),
        "modules that name is_reserve_pod": [
            m.name for m in modules if re.search(r"\bis_reserve_pod\b", m.text)
        ],
        "outcomes compared by identity": places(modules, OUTCOMES),
        "places that read a kind's group, resource": places(
            modules, r"\b(served\.id|descriptor\.group_resource)\b"
        ),
    }


def words(modules: list[Module], pages: list[str]) -> Rows:
    """Return the rows about words and phrases; a phrase may cross a line end."""
    rows: Rows = {word: places(modules, rf"\b{word}\b") for word in ("uncached", "per_pod")}
    rows["found, in src"] = str(len(places(modules, r"\bfound\b")))
    for phrase in PHRASES:
        pattern = r"(?i)\b" + r"\s+(?:# )?".join(phrase.split()) + r"\b"
        in_pages = sum(len(re.findall(pattern, page)) for page in pages)
        rows[f"“{phrase}”, src + docs"] = f"{len(places(modules, pattern))} + {in_pages}"
    return rows


def read_pages(root: Path) -> list[str]:
    """Return the texts of the pages for readers."""
    paths = [path for name in PAGES for path in ((root / name), *(root / name).glob("**/*.md"))]
    return [path.read_text() for path in paths if path.is_file()]


def measure(root: Path) -> Rows:
    """Return the rows of the table for a checkout."""
    modules = read_modules(root / "src")
    rows = sizes(modules) | shape(modules) | contract(modules)
    return rows | words(modules, read_pages(root))


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
        with checkout(revision, "src", *PAGES) as root:
            tables.append(measure(root))
    print(f"{'':44}" + "".join(f"{revision:>18}" for revision in args.revision))
    for row, counted in tables[-1].items():
        print(f"{row:44}" + "".join(f"{figure(table[row]):>18}" for table in tables))
        if args.verbose and not isinstance(counted, str):
            for item in counted:
                print("   ", f"{item}: {counted[item]}" if isinstance(counted, dict) else item)
    longest = tables[-1][f"functions of more than {LONG} lines"][:10]
    print("", f"The longest functions of {args.revision[-1]}:", *longest, sep="\n")


if __name__ == "__main__":
    main()
