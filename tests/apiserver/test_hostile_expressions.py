"""Regular expressions, paths and formats that would take exponential time."""

import pytest

from apiserver.sample_crd import CRDS, THINGS, definition
from holdfast.api import durations
from holdfast.api.cel.errors import EvaluationError
from holdfast.api.cel.rules import RuleInput, RuleScope
from holdfast.api.quantity import Quantity
from holdfast.api.string_formats import FORMATS
from holdfast.runtime.errors import BadRequest
from holdfast.server.schema import jsonpath


def thing(value):
    return {
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "text": value,
    }  # fmt: skip


async def test_a_pattern_runs_in_linear_time(api):
    await api.create(CRDS, definition({"text": {"type": "string", "pattern": "^(a+)+$"}}))
    refused = await api.call("POST", THINGS, thing("a" * 100_000 + "!"))
    assert refused.status == 422
    assert "should match '^(a+)+$'" in refused.json["message"]
    assert (await api.call("POST", THINGS, thing("a" * 100_000))).status == 201


async def test_a_rule_matches_in_linear_time(api):
    rule = {"rule": "self.matches('^(a+)+$')"}
    schema = {"text": {"type": "string", "x-kubernetes-validations": [rule]}}
    await api.create(CRDS, definition(schema))
    assert (await api.call("POST", THINGS, thing("a" * 100_000 + "!"))).status == 422
    assert (await api.call("POST", THINGS, thing("a" * 100_000))).status == 201


@pytest.mark.parametrize(("pattern", "words"), [
    ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    (r"(a)\1", r"invalid escape sequence: `\1`"),
    ("[", "missing closing ]: `[`"),
    ("a**", "invalid nested repetition operator: `**`"),
    ("*", "missing argument to repetition operator: `*`"),
    ("a{1001}", "invalid repeat count: `{1001}`"),
    ("\\", "trailing backslash at end of expression: ``"),
])  # fmt: skip
async def test_a_pattern_that_go_cannot_compile_is_rejected_with_its_message(api, pattern, words):
    schema = {"text": {"type": "string", "pattern": pattern}}
    refused = await api.call("POST", CRDS, definition(schema))
    assert refused.status == 422
    wanted = f"must be a valid regular expression, but isn't: error parsing regexp: {words}"
    assert wanted in refused.json["message"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_checked_in_linear_time(name):
    for text in (
        "9" * 300_000,
        "1min" * 100_000 + "!",
        "a." * 100_000 + "!",
        "a-" * 100_000,
        " " * 300_000,
    ):
        assert FORMATS[name](text) in (True, False)


@pytest.mark.parametrize("path", [
    "[?(@" + " " * 3000, "[?(@" + "==a" * 3000, ".a" * 3000, "[" + "9" * 5000 + "]", "[" * 500,
    "[?(@.a" * 150 + ")]" * 150, "[99999999999]", "[0:99999999999]", "[?(@.a==)]",
])  # fmt: skip
def test_a_path_that_cannot_be_read_is_refused_at_once(path):
    with pytest.raises(BadRequest):
        jsonpath.find(path, [{"a": []}])


def test_an_amount_is_short():
    for text in ("9" * 1_000_000 + "x", "1e999999999", "." * 1_000_000, "1E" + "9" * 5000):
        with pytest.raises(BadRequest):
            Quantity.parse(text)


def test_a_duration_is_short():
    for text in ("9" * 5000 + "s", "1." + "9" * 1_000_000 + "s", "1s" * 1_000_000):
        with pytest.raises(BadRequest):
            durations.parse(text)


@pytest.mark.parametrize("rule", [
    "dyn(b'Q1e999999999').isGreaterThan(quantity('1'))",
    "dyn(b'Qx').isGreaterThan(quantity('1'))",
    "dyn(b'V').isGreaterThan(semver('1.0.0'))",
    "semver('1.0.' + self).major() > 0",
    "semver('1.0.0-' + self).isGreaterThan(semver('1.0.0-1'))",
    "quantity(self).isGreaterThan(quantity('1'))",
    "{}['" + " " * 9_000 + "']",
])  # fmt: skip
def test_a_rule_with_huge_quantities_fails_at_once(rule):
    with pytest.raises(EvaluationError):
        RuleScope().compile(rule).value(RuleInput("9" * 5000))
