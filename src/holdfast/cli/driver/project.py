"""Write the files of a new driver's project."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from holdfast.api.validation.device_names import check_driver
from holdfast.runtime.errors import Refused

SUFFIX = ".template"


TEMPLATES = {False: ("common", "template"), True: ("common", "classic_template")}
"""Folders of templates; the key tells whether the driver is one of classic DRA."""


def write_project(name: str, directory: Path | None, *, classic: bool = False) -> None:
    """Write a project and print what to do next; raises Refused."""
    if causes := [cause.message for cause in check_driver(name, "NAME")]:
        raise Refused(f"{name!r} cannot be the name of a driver: {'; '.join(causes)}")
    project = name.lower().replace(".", "-")
    target = directory or Path(project)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Refused(f"{target} exists already: choose another place with --directory")
    words = {"@DRIVER@": name.lower(), "@PROJECT@": project, "@CLASS@": project}
    try:
        for folder in TEMPLATES[classic]:
            _write(files("holdfast.cli.driver") / folder, target, words)
    except OSError as error:
        raise Refused(f"cannot write {target}: {error.strerror or error}") from error
    print(f"wrote {target}: edit driver.py, then run `pytest` there; README.md says how to run it")


def _write(source: Traversable, target: Path, words: dict[str, str]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in sorted(source.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            _write(entry, target / entry.name, words)
        elif entry.name.endswith(SUFFIX):
            text = entry.read_text(encoding="utf-8")
            for word, value in words.items():
                text = text.replace(word, value)
            (target / entry.name.removesuffix(SUFFIX)).write_text(text, encoding="utf-8")
