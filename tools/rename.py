"""Rename modules, top-level names and members over the whole tree, by tables of lines.

    python tools/rename.py tools/renames/scheduler.txt

    module scheduler.hearing scheduler.requeue_hints     move src/holdfast/scheduler/hearing.py
    name scheduler.requeue_hints Hearing RequeueHints    a class, function or constant of a module
    member scheduler.binding_cycle.BindingTasks landed finished
    member columns.picture.Picture news changes in columns/ scheduler/news.py tests/columns
    word hearing requeue_hints in scheduler tests/scheduler   every such identifier, and ``_hearing``

Lines are applied in their order, with the names as they are after the lines before. A module is
named below ``holdfast``; ``@tests.laws.truth`` is a module outside of src. A ``member`` is renamed
at every ``.old`` of the tree; where several classes have such a member, the line says in which
files or folders (below src/holdfast, or from the root), or ``in .`` for the class's own file only.
A ``word`` is renamed wherever it is a whole identifier in those files, keyword arguments included.
Text is changed where a name stands in double backticks, and where a module's path is written.
"""

# ruff: noqa
from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

CODE = ("src", "tests", "benchmarks", "tools", "examples")
TEXT = (
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "pyproject.toml",
    "Makefile",
    "tests",
    "deploy",
)
Edit = tuple[int, int, int]


class Source:
    """One Python file: its text, syntax tree and tokens, read again after each change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text()
        self._tree: ast.Module | None = None

    @property
    def module(self) -> str:
        parts = list(self.path.with_suffix("").parts)
        parts = parts[2:] if parts[0] == "src" else ["@" + parts[0], *parts[1:]]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def tree(self) -> ast.Module:
        if self._tree is None:
            self._tree = ast.parse(self.text)
        return self._tree

    def tokens(self) -> list[tokenize.TokenInfo]:
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))

    def write(self, text: str) -> None:
        if text != self.text:
            self.text, self._tree = text, None
            self.path.write_text(text)

    def edit(self, edits: set[Edit], new: str) -> None:
        """Put ``new`` at (line, column, width) places."""
        lines = self.text.splitlines(keepends=True)
        for line, column, width in sorted(edits, reverse=True):
            old = lines[line - 1]
            lines[line - 1] = old[:column] + new + old[column + width :]
        self.write("".join(lines))


def dotted(module: str) -> str:
    return module[1:] if module.startswith("@") else f"holdfast.{module}"


def file_of(module: str) -> Path:
    stem = (
        Path(module[1:].replace(".", "/"))
        if module.startswith("@")
        else Path("src/holdfast") / module.replace(".", "/")
    )
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")


class Tree:
    def __init__(self) -> None:
        self.sources = {
            p: Source(p)
            for top in CODE
            for p in sorted(Path(top).rglob("*.py"))
            if ".venv" not in p.parts
        }

    def with_text(self, word: str) -> list[Source]:
        return [s for s in self.sources.values() if word in s.text]

    # modules

    def move_module(self, old: str, new: str) -> None:
        source = file_of(old)
        if not source.exists():
            raise SystemExit(f"no such module: {old}")
        target = Path(
            str(source.parent if source.name == "__init__.py" else source).replace(
                old.lstrip("@").replace(".", "/"), new.lstrip("@").replace(".", "/")
            )
        )
        moved = source.parent if source.name == "__init__.py" else source
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise SystemExit(f"exists already: {target}")
        subprocess.run(["git", "mv", str(moved), str(target)], check=True)
        if moved.is_dir() and moved.exists():
            subprocess.run(["rm", "-rf", str(moved)], check=True)
        self.__init__()  # type: ignore[misc]
        self._rewrite_imports(old, new)
        self._rewrite_text(old, new)

    def _rewrite_imports(self, old: str, new: str) -> None:
        package, leaf = dotted(old).rpartition(".")[::2]
        new_package, new_leaf = dotted(new).rpartition(".")[::2]
        full = re.compile(rf"(?<![\w.]){re.escape(dotted(old))}(?!\w)")
        for source in self.with_text(leaf):
            text = full.sub(dotted(new), source.text)
            if package:
                single = re.compile(
                    rf"^(\s*)from {re.escape(package)} import {leaf}( as \w+)?$", re.M
                )
                found = single.search(text)
                several = re.search(
                    rf"from {re.escape(package)} import [^\n]*[(,] *{leaf}\b|from {re.escape(package)} import \([^)]*\b{leaf}\b",
                    text,
                )
                if several:
                    print(f"BY HAND: {source.path} imports {leaf} among others from {package}")
                if found:
                    text = single.sub(rf"\1from {new_package} import {new_leaf}\2", text)
                    if not found.group(2) and new_leaf != leaf:
                        text = re.sub(rf"(?<![\w.\"'`]){leaf}\.(?=\w)", f"{new_leaf}.", text)
            source.write(text)

    def _rewrite_text(self, old: str, new: str) -> None:
        a, b = old.lstrip("@").replace(".", "/"), new.lstrip("@").replace(".", "/")
        path = re.compile(rf"(?<![\w-]){re.escape(a)}(?=\.py\b|/(?=\w)|`|\.[a-zA-Z_]+`)")
        full = re.compile(rf"(?<![\w.]){re.escape(dotted(old))}(?!\w)")
        below = re.compile(rf"`{re.escape(old.lstrip('@'))}(?=[`.])")
        for file in text_files():
            text = file.read_text()
            done = below.sub("`" + new.lstrip("@"), full.sub(dotted(new), path.sub(b, text)))
            if done != text:
                file.write_text(done)

    # names of a module

    def rename_name(self, module: str, old: str, new: str) -> None:
        home = self.sources.get(file_of(module))
        if home is None or old not in top_names(home.tree):
            raise SystemExit(f"{module} defines no {old}")
        if new in top_names(home.tree) | imported_names(home.tree):
            raise SystemExit(f"{module} has a {new} already")
        homes, found = {module}, True
        while found:  # modules that pass the name on
            found = False
            for source in self.with_text(old):
                if source.module not in homes and any(
                    n.module
                    and n.module in {dotted(h) for h in homes}
                    and any(a.name == old and not a.asname for a in n.names)
                    for n in source.tree.body
                    if isinstance(n, ast.ImportFrom)
                ):
                    homes.add(source.module)
                    found = True
        for source in self.with_text(old):
            self._rename_in(source, homes, module, old, new)
        swap_backticked(self, old, new, only=homes)

    def _rename_in(self, source: Source, homes: set[str], module: str, old: str, new: str) -> None:
        paths = {dotted(h) for h in homes}
        aliases, bound, foreign, renamed_import = set(), source.module == module, set(), set()
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if node.module in paths and alias.name == old:
                        if alias.asname:
                            renamed_import.add((alias.lineno, alias.col_offset, len(old)))
                        else:
                            bound = True
                    elif alias.name == old or alias.asname == old:
                        foreign |= {(alias.lineno, alias.col_offset)}
                    if f"{node.module}.{alias.name}" in paths:
                        aliases.add(alias.asname or alias.name)
            elif isinstance(node, ast.Import):
                aliases |= {a.asname or a.name for a in node.names if a.name in paths}
        edits: set[Edit] = set(renamed_import)
        if bound:
            if any(new == n for n in imported_names(source.tree)) and source.module != module:
                print(f"LOOK: {source.path} imports a {new} of its own")
            keywords = {
                (k.lineno, k.col_offset)
                for n in ast.walk(source.tree)
                if isinstance(n, ast.Call)
                for k in n.keywords
                if k.arg == old
            }
            parameters = {
                (a.lineno, a.col_offset)
                for n in ast.walk(source.tree)
                if isinstance(n, ast.arg) and n.arg == old
                for a in [n]
            }
            if parameters:
                print(f"LOOK: {source.path} has a parameter {old} ({sorted(parameters)[0][0]})")
            toks = source.tokens()
            members = member_definitions(source.tree, old)
            for i, t in enumerate(toks):
                if (
                    t.type != tokenize.NAME
                    or t.string != old
                    or t.start in keywords | foreign | members
                ):
                    continue
                if i and toks[i - 1].string == "." and toks[i - 1].type == tokenize.OP:
                    continue
                edits.add((*t.start, len(old)))
            edits |= in_fields(source, rf"(?<![\w.]){old}(?!\w)", old)
            for node in source.tree.body:
                if (
                    isinstance(node, (ast.Assign, ast.AnnAssign))
                    and "__all__" in ast.unparse(node).split("=")[0]
                ):
                    edits |= {
                        (c.lineno, c.col_offset + 1, len(old))
                        for c in ast.walk(node)
                        if isinstance(c, ast.Constant) and c.value == old
                    }
        for node in ast.walk(source.tree):
            if (
                isinstance(node, ast.Attribute)
                and node.attr == old
                and ast.unparse(node.value) in aliases
            ):
                edits.add((node.end_lineno or 0, (node.end_col_offset or 0) - len(old), len(old)))
        byte_safe(source, edits)
        source.edit(edits, new)

    def rename_word(self, old: str, new: str, places: list[str]) -> None:
        if not places:
            raise SystemExit("say `in FILES`")
        for source in self.with_text(old):
            if any(within(source.path, p) for p in places):
                for before, after in ((old, new), ("_" + old, "_" + new)):
                    toks = source.tokens()
                    source.edit(
                        {
                            (*t.start, len(before))
                            for t in toks
                            if t.type == tokenize.NAME and t.string == before
                        }
                        | in_fields(source, rf"(?<!\w){before}(?!\w)", before),
                        after,
                    )

    # members of a class

    def rename_member(self, cls: str, old: str, new: str, places: list[str]) -> None:
        module, _, name = cls.rpartition(".")
        home = self.sources.get(file_of(module))
        if home is None or not any(
            isinstance(n, ast.ClassDef) and n.name == name for n in home.tree.body
        ):
            raise SystemExit(f"no such class: {cls}")
        others = sorted(
            {
                s.module
                for s in self.with_text(old)
                if s.path.parts[0] == "src" and s is not home and member_definitions(s.tree, old)
            }
        )
        if others and not places:
            raise SystemExit(f"{cls}.{old}: also a member in {', '.join(others)}; say `in FILES`")
        chosen = [
            s
            for s in self.with_text(old)
            if s is home or not places or any(within(s.path, p) for p in places)
        ]
        for source in chosen:
            edits: set[Edit] = set()
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Attribute) and node.attr == old:
                    at = (node.end_lineno or 0, (node.end_col_offset or 0) - len(old), len(old))
                    if says(source, at, old):  # not in a formatted string, see in_fields
                        edits.add(at)
                elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in (
                    name,
                    "replace",
                    "_replace",
                    "cls",
                ):
                    edits |= {
                        (k.lineno, k.col_offset, len(old)) for k in node.keywords if k.arg == old
                    }
                elif (
                    isinstance(node, ast.MatchClass)
                    and ast.unparse(node.cls).split(".")[-1] == name
                    and old in node.kwd_attrs
                ):
                    print(f"BY HAND: {source.path}:{node.lineno} matches {old}=")
                elif isinstance(node, ast.ClassDef) and (
                    node.name == name and source is home or places and source is not home
                ):
                    edits |= {
                        (*at, len(old)) for at in member_definitions(ast.Module([node], []), old)
                    }
                    for item in ast.walk(node):
                        if (
                            isinstance(item, ast.Assign)
                            and ast.unparse(item.targets[0]) == "__slots__"
                        ):
                            edits |= {
                                (c.lineno, c.col_offset + 1, len(old))
                                for c in ast.walk(item.value)
                                if isinstance(c, ast.Constant) and c.value == old
                            }
            byte_safe(source, edits)
            source.edit(edits | in_fields(source, rf"(?<=\.){old}(?!\w)", old), new)
            for at in (
                n for n in ast.walk(source.tree) if isinstance(n, ast.Constant) and n.value == old
            ):
                print(f'LOOK: {source.path}:{at.lineno} says "{old}"')
        swap_backticked(self, old, new, only={s.module for s in chosen})


def says(source: Source, at: Edit, word: str) -> bool:
    """Tell whether the word is at that place: columns are wrong in formatted strings."""
    line = source.text.splitlines()[at[0] - 1].encode()
    return line[at[1] : at[1] + at[2]].decode(errors="ignore") == word


def in_fields(source: Source, pattern: str, old: str) -> set[Edit]:
    """Find a word in the fields of formatted strings, which are single tokens before 3.12."""
    found: set[Edit] = set()
    lines = source.text.splitlines(keepends=True)
    for t in source.tokens():
        if t.type != tokenize.STRING or "f" not in re.split("[\"']", t.string)[0].lower():
            continue
        depth, fields = 0, []
        for i, c in enumerate(t.string):
            depth += (c == "{") - (c == "}")
            fields.append(c if depth > 0 or c in "{}\n" else "\0")
        text = re.sub(r"(['\"]).*?\1", lambda m: "\0" * len(m[0]), "".join(fields))
        for match in re.finditer(pattern, text):
            before = t.string[: match.start()]
            line = t.start[0] + before.count("\n")
            column = len(before.rpartition("\n")[2]) + (0 if "\n" in before else t.start[1])
            assert lines[line - 1][column : column + len(old)] == old
            found.add((line, column, len(old)))
    return found


def within(path: Path, place: str) -> bool:
    for root in (Path(), Path("src/holdfast")):
        target = root / place
        if path == target or target in path.parents:
            return True
    return False


def byte_safe(source: Source, edits: set[Edit]) -> None:
    """Turn the syntax tree's byte columns into columns of characters, where a line has others."""
    lines = source.text.splitlines()
    for edit in list(edits):
        line = lines[edit[0] - 1]
        if (
            not line.isascii()
            and line[edit[1] : edit[1] + edit[2]].strip()
            and len(line.encode()) != len(line)
        ):
            column = len(line.encode()[: edit[1]].decode(errors="ignore"))
            edits.discard(edit)
            edits.add((edit[0], column, edit[2]))


def top_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(
        ast.Module(
            [
                n
                for n in tree.body
                if not isinstance(n, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            ],
            [],
        )
    ):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.TypeAlias if hasattr(ast, "TypeAlias") else ()):
            names.add(node.name.id)  # type: ignore[attr-defined]
    return names | {
        n.name
        for n in tree.body
        if isinstance(n, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }


def imported_names(tree: ast.Module) -> set[str]:
    return {
        a.asname or a.name
        for n in tree.body
        if isinstance(n, (ast.ImportFrom, ast.Import))
        for a in n.names
    }


def member_definitions(tree: ast.Module, name: str) -> set[tuple[int, int]]:
    """Where a class defines such a method or field."""
    found: set[tuple[int, int]] = set()
    for cls in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
        for item in cls.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if item.name == name:
                    width = (
                        len("async def ") if isinstance(item, ast.AsyncFunctionDef) else len("def ")
                    )
                    found.add((item.lineno, item.col_offset + width))
                for node in ast.walk(item):
                    if (
                        isinstance(node, ast.Attribute)
                        and isinstance(node.ctx, ast.Store)
                        and node.attr == name
                        and ast.unparse(node.value) == "self"
                    ):
                        found.add((node.end_lineno or 0, (node.end_col_offset or 0) - len(name)))
            for target in getattr(item, "targets", [getattr(item, "target", None)]):
                if isinstance(target, ast.Name) and target.id == name:
                    found.add((target.lineno, target.col_offset))
    return found


def swap_backticked(tree: Tree, old: str, new: str, only: set[str]) -> None:
    quoted = re.compile(rf"``((?:\w+\.)*){old}((?:\.\w+|\([^`]*\))*)``")
    for source in tree.with_text("``"):
        camel = re.fullmatch(r"(?:[A-Z][a-z0-9]+){2,}", old)
        if source.module in only or camel:
            source.write(quoted.sub(rf"``\1{new}\2``", source.text))
    if re.fullmatch(r"[A-Z]\w+", old):
        single = re.compile(rf"`((?:\w+\.)*){old}((?:\.\w+)*)`")
        for file in text_files():
            if file.suffix == ".md":
                text = file.read_text()
                if (done := single.sub(rf"`\1{new}\2`", text)) != text:
                    file.write_text(done)


def text_files() -> list[Path]:
    files = []
    for top in TEXT:
        path = Path(top)
        files += (
            [path]
            if path.is_file()
            else [
                p
                for p in path.rglob("*")
                if p.suffix in (".md", ".toml", ".yaml")
                and p.is_file()
                and "decisions" not in p.parts
            ]
        )
    return files


def main() -> None:
    tree = Tree()
    for file in sys.argv[1:]:
        for number, line in enumerate(Path(file).read_text().splitlines(), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            try:
                if words[0] == "module":
                    tree.move_module(*words[1:])
                elif words[0] == "name":
                    tree.rename_name(*words[1:])
                elif words[0] == "member":
                    tree.rename_member(
                        *words[1:4], [tree_path(words[1]) if w == "." else w for w in words[5:]]
                    )
                elif words[0] == "word":
                    tree.rename_word(*words[1:3], words[4:])
                else:
                    raise SystemExit(f"what is {words[0]}?")
            except SystemExit as failure:
                print(f"FAILED {file}:{number}: {line}\n   {failure}")
    for command in (["check", "-q", "--fix", "--select", "I"], ["format", "-q"]):
        subprocess.run([".venv/bin/ruff", *command, "."], check=False)


def tree_path(cls: str) -> str:
    return str(file_of(cls.rpartition(".")[0]))


if __name__ == "__main__":
    main()
