"""The documentation is complete and its links lead somewhere."""

import re
from pathlib import Path

import pytest
import typer

from holdfast.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/README.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page):
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings(page):
    for target in LINK.findall(page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(found), f"{page.name} links to {target}"


def test_the_index_lists_every_page():
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    missing = {page.name for page in (ROOT / "docs").glob("*.md")} - {p.name for p in linked}
    assert missing == set()


def flags(command, path=""):
    """(command, flag) of every flag there is, subcommands included."""
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            names = [*parameter.opts, *parameter.secondary_opts]
            yield from ((path, name) for name in names if name not in ("--help", "--version"))
    for name, inner in getattr(command, "commands", {}).items():
        yield from flags(inner, f"{path} {name}".strip())


def test_every_flag_is_described():
    page = (ROOT / "docs" / "cli.md").read_text()
    parts = re.split(r"^## ", page, flags=re.M)[1:]
    sections = {part.partition("\n")[0]: part for part in parts}
    for command, flag in flags(typer.main.get_command(app)):
        name = command.split()[0]
        section = next(text for title, text in sections.items() if name in title.split())
        assert re.search(rf"{flag}(?![\w-])", section), f"docs/cli.md lacks {command} {flag}"


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_page_about_tests_lists_every_theme():
    """A folder of tests is named like a package, or the page says what it tests."""
    page = (ROOT / "tests" / "README.md").read_text()
    packages = {path.parent.name for path in (ROOT / "src").rglob("__init__.py")}
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    missing = [name for name in sorted(folders - packages) if f"| `{name}` |" not in page]
    assert not missing
