"""CEL rules of CRDs: evaluated as in Kubernetes, or skipped with a warning."""

import pytest

from holdfast.apiserver.schema.structural import StructuralSchema
from holdfast.errors import Invalid

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def schema(rules=(), **properties):
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return StructuralSchema.compile({"type": "object", "properties": {"spec": spec}})


def rule(text, message="", **more):
    return {"rule": text, **({"message": message} if message else {}), **more}


def wrong(compiled, spec, old=None):
    before = None if old is None else {"spec": old}
    return [(c.field, c.message) for c in compiled.validate({"spec": spec}, before)]


def test_a_broken_rule_is_reported_with_field_and_message():
    ordered = schema([rule("self.low <= self.high", "low before high")], low=NUMBER, high=NUMBER)
    assert wrong(ordered, {"low": 1, "high": 2}) == []
    assert wrong(ordered, {"low": 3, "high": 2}) == [("spec", "Invalid value: low before high")]


def test_without_a_message_the_rule_itself_is_reported():
    (found,) = wrong(schema([rule("self.a == 'x'")], a=TEXT), {"a": "y"})
    assert found[1].endswith("failed rule: self.a == 'x'")


def test_message_expression_reason_and_field_path():
    rules = [
        rule("self.a != 'bad'", messageExpression="'not ' + self.a", fieldPath=".a"),
        rule("has(self.b)", "b is needed", reason="FieldValueRequired", fieldPath=".b"),
        rule("!has(self.c)", "c is gone", reason="FieldValueForbidden", fieldPath=".c"),
    ]
    found = wrong(schema(rules, a=TEXT, b=TEXT, c=TEXT), {"a": "bad", "c": "x"})
    assert [field for field, _ in found] == ["spec.a", "spec.b", "spec.c"]
    assert found[0][1].endswith(": not bad")
    assert [words for _, words in found[1:]] == [
        "Required value: b is needed",
        "Forbidden: c is gone",
    ]


def test_rules_apply_to_list_items_and_map_values():
    short = {**TEXT, "x-kubernetes-validations": [rule("size(self) < 3", "too long")]}
    compiled = schema(
        l={"type": "array", "items": short}, m={"type": "object", "additionalProperties": short}
    )
    found = wrong(compiled, {"l": ["a", "long"], "m": {"k": "long"}})
    assert [field for field, _ in found] == ["spec.l[1]", "spec.m[k]"]


def test_a_rule_with_old_self_is_evaluated_only_for_updates():
    fixed = {**TEXT, "x-kubernetes-validations": [rule("self == oldSelf", "is immutable")]}
    compiled = schema(a=fixed)
    assert wrong(compiled, {"a": "x"}) == []
    assert wrong(compiled, {"a": "x"}, {}) == []
    assert wrong(compiled, {"a": "y"}, {"a": "x"}) == [
        ("spec.a", 'Invalid value: "y": is immutable')
    ]


def test_rules_of_unchanged_values_are_not_evaluated():
    compiled = schema([rule("self.a < 2")], a=NUMBER, b=NUMBER)
    assert wrong(compiled, {"a": 5}, {"a": 5}) == []
    assert wrong(compiled, {"a": 5, "b": 1}, {"a": 5}) != []


def test_rules_of_the_items_of_an_unchanged_list_are_not_evaluated():
    small = {**NUMBER, "x-kubernetes-validations": [rule("self < 2")]}
    compiled = schema(l={"type": "array", "items": small}, b=NUMBER)
    assert wrong(compiled, {"l": [5], "b": 1}, {"l": [5]}) == []
    assert wrong(compiled, {"l": [5, 1]}, {"l": [5]}) != []


def test_names_that_are_not_valid_in_cel_are_escaped():
    compiled = schema(
        [rule("self.__namespace__ == self.a__dash__b")], **{"namespace": TEXT, "a-b": TEXT}
    )
    assert wrong(compiled, {"namespace": "x", "a-b": "x"}) == []
    assert wrong(compiled, {"namespace": "x", "a-b": "y"}) != []


def test_a_rule_that_fails_rejects_the_object():
    ((field, words),) = wrong(schema([rule("self.a == 'x'")], a=TEXT), {})
    assert (field, "no such key: a" in words) == ("spec", True)


def test_quantities_compare_by_value():
    compiled = schema([rule("quantity(self.a).compareTo(quantity('1Gi')) >= 0")], a=TEXT)
    assert wrong(compiled, {"a": "1024Mi"}) == []
    assert wrong(compiled, {"a": "1023Mi"}) != []


def test_type_errors_are_reported_instead_of_rules():
    compiled = schema([rule("self.a > 1")], a=NUMBER)
    (field, _), (nowhere, words) = wrong(compiled, {"a": "x"})
    assert (field, nowhere) == ("spec.a", "<nil>")
    assert "some validation rules were not checked" in words


def test_invalid_cel_is_rejected_with_its_path():
    with pytest.raises(Invalid) as refused:
        schema([rule("self.a >")], a=NUMBER)
    (cause,) = refused.value.details.causes
    assert cause.field == "properties[spec].x-kubernetes-validations[0].rule"


@pytest.mark.parametrize(
    "unbuilt",
    [
        rule("isURL(self.a)"),
        rule("self.t > timestamp('2020-01-01T00:00:00Z')"),
        rule("oldSelf.hasValue() || self.a == 'x'", optionalOldSelf=True),
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_skipped_with_a_warning(unbuilt):
    compiled = schema([unbuilt], a=TEXT, t={"type": "string", "format": "date-time"})
    assert wrong(compiled, {"a": "x", "t": "2019-01-01T00:00:00Z"}) == []
    (words,) = compiled.unevaluated_rules
    assert words.startswith("properties[spec].x-kubernetes-validations[0] is not evaluated: ")
