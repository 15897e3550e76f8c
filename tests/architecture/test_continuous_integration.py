"""The workflow and the hooks run what the Makefile and pyproject.toml say."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
JOBS = WORKFLOW["jobs"]
PYTHON = "Programming Language :: Python :: "
SUPPORTED = [
    one.removeprefix(PYTHON) for one in PROJECT["project"]["classifiers"] if one.startswith(PYTHON)
]


def steps(job):
    return JOBS[job]["steps"]


def targets(job):
    """The targets of the Makefile that a job runs."""
    runs = [step["run"] for step in steps(job) if step.get("run", "").startswith("make ")]
    return [target for run in runs for target in run.split()[1:]]


def recipe(target):
    """The commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.M)
    return [line.strip() for line in found[1].replace("$(BIN)", ".venv/bin").splitlines()]


def test_the_oldest_supported_python_is_the_one_that_is_required():
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert SUPPORTED[0] == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + oldest.replace(".", "")
    assert f"needs Python {oldest} or newer" in MAKEFILE
    assert f"--python-version {oldest}" in MAKEFILE


def test_every_supported_python_is_checked_and_tested():
    versions = {job: JOBS[job]["strategy"]["matrix"]["python"] for job in ("check", "test")}
    assert versions == {"check": SUPPORTED, "test": SUPPORTED}
    assert set(JOBS["real"]["strategy"]["matrix"]["python"]) <= set(SUPPORTED)


def test_the_jobs_run_targets_of_the_makefile():
    assert {job: targets(job) for job in JOBS} == {
        "check": ["check"],
        "binaries": ["binaries"],
        "test": ["test", "guides"],
        "real": ["real"],
    }
    for target in (target for job in JOBS for target in targets(job)):
        assert re.search(rf"^{target}:", MAKEFILE, re.M), target


@pytest.mark.parametrize("target", ["test", "guides", "real"])
def test_upstream_vectors_are_not_needed(target):
    """They are not in the repository, and without them tests marked parity fail under CI."""
    assert "parity" not in [one for job in JOBS for one in targets(job)]
    (selection,) = re.findall(r"-m (?:\"(.+?)\"|(\w+))", " ".join(recipe(target)))
    marks = {"parity": True, "real": False, "guide": False}
    assert not eval("".join(selection), marks)


def test_what_is_built_is_the_same_for_every_job():
    caches = [
        step["with"]
        for job in JOBS
        for step in steps(job)
        if step.get("uses", "").startswith("actions/cache")
    ]
    assert len(caches) == 3 and len({(one["path"], one["key"]) for one in caches}) == 1
    for path in re.findall(r"'([^']+)'", caches[0]["key"]):
        assert [*ROOT.glob(path)], path


def test_jobs_have_few_rights_and_end():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "permissions" not in {key for job in JOBS.values() for key in job}
    assert all(job["timeout-minutes"] <= 60 for job in JOBS.values())
    uses = [step["uses"] for job in JOBS for step in steps(job) if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w/-]+@v\d+", one) for one in uses)


def test_hooks_run_the_commands_of_make_check():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local"
    assert [hook["entry"] for hook in repo["hooks"]] == recipe("check")
    assert all(
        hook["language"] == "system" and hook["pass_filenames"] is False for hook in repo["hooks"]
    )


@pytest.mark.parametrize("pattern", ["*.py", "Makefile"])
def test_editors_are_told_what_the_formatter_does(pattern):
    sections = dict(
        re.findall(r"^\[(.+)\]\n((?:[^\[\n].*\n)*)", (ROOT / ".editorconfig").read_text(), re.M)
    )
    length = PROJECT["tool"]["ruff"]["line-length"]
    wanted = {"*.py": f"max_line_length = {length}\n", "Makefile": "indent_style = tab\n"}
    assert wanted[pattern] in sections[pattern]
