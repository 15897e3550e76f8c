"""The page about the public API lists exactly what the public modules export."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "public-api.md").read_text()
SECTIONS = re.findall(r"^## `(holdfast(?:\.\w+)+)`\n\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)


def test_the_page_has_the_public_modules():
    assert [module for module, _ in SECTIONS] == [
        "holdfast.plugin", "holdfast.driver", "holdfast.testing", "holdfast.testing.classic_dra",
        "holdfast.client",
    ]  # fmt: skip


@pytest.mark.parametrize(("module", "text"), SECTIONS, ids=[name for name, _ in SECTIONS])
def test_a_public_module_exports_what_is_documented(module, text):
    exported = importlib.import_module(module).__all__
    listed = text.strip().split("\n\n")[-1]
    assert sorted(re.findall(r"`(\w+)`", listed)) == sorted(exported)


@pytest.mark.parametrize("name", [name for name, _ in SECTIONS])
def test_every_exported_name_can_be_imported(name):
    module = importlib.import_module(name)
    assert all(getattr(module, exported) is not None for exported in module.__all__)


@pytest.mark.parametrize("name", ["holdfast.testing", "holdfast.client"])
def test_a_name_that_is_not_exported_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'Nothing'"):
        _ = importlib.import_module(name).Nothing
