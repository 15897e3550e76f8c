"""The distribution is `holdfast-scheduler`; `holdfast` on PyPI belongs to another project."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from holdfast.cli.driver.project import write_project

ROOT = Path(__file__).parents[2]
NAME = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
FOLDERS = ("src", "docs", "examples", "deploy", "tools", "benchmarks", "tests", ".ci")
TEXTS = {".md", ".py", ".yaml", ".toml", ".template", ".txt", ".sh", ""}
INSTALLED = re.compile(
    r"\b(?:pipx?|pip3|uv|poetry|pdm|conda)\b[^`\n]*?"
    r"\b(?:install|uninstall|add|download|wheel)\b([^`#]*)"
)
STRANGER = re.compile(r"(?<![\w/.-])holdfast(?:\[[\w, ]*\])?(?=$|[\s'\"`;,)<>=!~])")
LOOKUP = re.compile(r"(?:version|distribution|metadata|requires|files)\(['\"]holdfast['\"]\)")
REQUIREMENT = re.compile(r"['\"]holdfast(?:\[[\w, ]*\])?(?: *[<>=!~@;][^'\"]*)?['\"]")
LISTED = re.compile(r"holdfast *(?:[=~!<>]=|@ )")
"""A line of requirements.txt."""


def wrong_lines(text, *, requirements=False):
    """The lines that install, remove, look up or depend on the other project."""
    return [
        line
        for line in re.sub(r"\\\n", " ", text).splitlines()
        if "holdfast[" in line
        or LOOKUP.search(line)
        or ((found := INSTALLED.search(line)) and STRANGER.search(found[1]))
        or (requirements and REQUIREMENT.search(line))
        or LISTED.match(line)
    ]


def pages():
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in TEXTS and "__pycache__" not in path.parts:
                yield path


def test_nothing_installs_or_depends_on_the_project_of_another_author():
    wrong = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in pages()
        if path != Path(__file__)
        for line in wrong_lines(
            path.read_text(),
            requirements=path.name != "pyproject.toml" and ".toml" in path.suffixes,
        )
    }
    assert wrong == set()


def test_what_the_search_finds():
    for line in (
        "pip install holdfast",
        "RUN pip3 install --no-cache-dir 'holdfast[nvidia]' .",
        "`uv pip install holdfast==0.1`",
        "python -m pip uninstall -y holdfast",
        "pipx install holdfast",
        "RUN pip install --no-cache-dir \\\n    holdfast",
        "poetry add holdfast",
        "holdfast==0.5.1",
        "version('holdfast')",
    ):
        assert wrong_lines(line), line
    assert wrong_lines('dependencies = ["holdfast>=0.1"]', requirements=True)
    for line in (
        "pip install holdfast-scheduler",
        "pip install git+https://github.com/holdfast-dev/holdfast`, then `holdfast up`",
        "pip install nvidia-ml-py  # then start holdfast",
    ):
        assert not wrong_lines(line), line


def test_a_new_driver_depends_on_this_distribution(tmp_path):
    for classic in (False, True):
        project = tmp_path / str(classic)
        write_project("gpu.example.com", project, classic=classic)
        written = tomllib.loads((project / "pyproject.toml").read_text())
        assert written["project"]["dependencies"] == [NAME]
        assert not wrong_lines((project / "Dockerfile").read_text())


def test_the_command_and_the_import_keep_their_name():
    assert NAME == "holdfast-scheduler"
    scripts = distribution(NAME).entry_points.select(group="console_scripts")
    assert [(one.name, one.value) for one in scripts] == [("holdfast", "holdfast.cli:main")]
