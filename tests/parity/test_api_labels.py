"""Label selectors: text form, structured form, matching, validation."""

import pytest

from holdfast.api import labels
from holdfast.api.decode import convert_object
from holdfast.api.meta import LabelSelector
from holdfast.runtime.errors import BadRequest
from parity.harness import parity

FILE = "labels.jsonl"


def written(selector):
    """Return a selector in the form of the vectors."""
    requirements = selector.requirements
    return {
        "requirements": None
        if requirements is None
        else [
            {"key": r.key, "operator": r.operator, "values": list(r.values)} for r in requirements
        ],
        "string": str(selector),
    }


def built(selector):
    """Build a selector from the vectors' form, in the order given."""
    return labels.Selector(
        tuple(
            labels.require(r["key"], r["operator"], r["values"]) for r in selector["requirements"]
        )
    )


@parity(FILE, "TestSelectorParse", "TestSetSelectorParser")
def test_parse(record):
    if not record.expected["valid"]:
        with pytest.raises(BadRequest):
            labels.parse(record.input["selector"])
        return
    got = labels.parse(record.input["selector"])
    if "string" in record.expected:
        assert str(got) == record.expected["string"]
    if "parsed" in record.expected:
        assert written(got) == record.expected["parsed"]


@parity(FILE, "TestSelectorMatches")
def test_parsed_selectors_match(record):
    got = labels.parse(record.input["selector"]).matches(record.input["labels"])
    assert got == record.expected["match"]


@parity(FILE, "TestRequirementSelectorMatching")
def test_built_selectors_match(record):
    got = built(record.input["selector"]).matches(record.input["labels"])
    assert got == record.expected["match"]


@parity(FILE, "TestToString")
def test_write(record):
    assert str(built(record.input["selector"])) == record.expected["string"]


@parity(FILE, "TestRequirementConstructor")
def test_require(record):
    key, operator = record.input["key"], record.input["operator"]
    causes = labels.check(key, operator, record.input["values"])
    assert [f"{c.reason} {c.field}" for c in causes] == (record.expected["errors"] or [])
    assert (not causes) == record.expected["valid"]


@parity(FILE, "TestLabelSelectorAsSelector")
def test_compile_the_structured_form(record):
    raw = record.input["labelSelector"]
    selector = None if raw is None else convert_object(raw, LabelSelector)
    if record.expected["error"]:
        with pytest.raises(BadRequest):
            labels.from_selector(selector)
    else:
        assert written(labels.from_selector(selector)) == record.expected["selector"]
