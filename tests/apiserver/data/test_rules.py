"""CEL rules of CRDs, checked and evaluated as in Kubernetes."""

import pytest

from holdfast.server.schema.structural import StructuralSchema

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


def test_a_rule_of_the_whole_object_names_no_field_but_its_field_path():
    root = {
        "type": "object", "properties": {"a": TEXT},
        "x-kubernetes-validations": [
            rule("self.a == 'x'"), rule("self.a == 'x'", fieldPath=".a"),
            rule("self.metadata.name == 'n' && self.kind == 'K'"),
        ],
    }  # fmt: skip
    compiled = StructuralSchema.compile(root)
    assert compiled.rule_problems() == []
    found = compiled.validate({"a": "y", "kind": "K", "metadata": {"name": "n"}})
    assert [cause.field for cause in found] == ["<nil>", "a"]


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


@pytest.mark.parametrize(("text", "words"), [
    ("self.a >", "Syntax error"),
    ("self.a > 'x'", "found no matching overload for '_>_' applied to '(int, string)'"),
    ("self.nosuch == 1", "undefined field 'nosuch'"),
    ("nosuch(self.a)", "undeclared reference to 'nosuch'"),
    ("google.protobuf.Int64Value{value: 1} == 1", "google.protobuf.Int64Value"),
    ("self.a", "cel expression must evaluate to a bool"),
])  # fmt: skip
def test_an_invalid_rule_is_rejected_with_its_path(text, words):
    (cause,) = schema([rule(text)], a=NUMBER).rule_problems()
    assert cause.field == "properties[spec].x-kubernetes-validations[0].rule"
    assert words in cause.message


def test_a_stored_rule_that_does_not_compile_rejects_the_object():
    ((field, words),) = wrong(schema([rule("nosuch(self.a)")], a=NUMBER), {"a": 1})
    assert (field, "rule compile error: compilation failed" in words) == ("spec", True)


def test_a_rule_without_limits_on_sizes_is_too_expensive():
    many = {"type": "array", "items": TEXT}
    text = "self.l.all(x, self.l.exists_one(y, x == y))"
    causes = schema([rule(text)], l=many).rule_problems()
    assert [cause.reason for cause in causes] == ["FieldValueForbidden"] * 3
    assert "estimated rule cost exceeds budget by factor of more than 100x" in causes[0].message
    few = {**many, "maxItems": 20, "items": {**TEXT, "maxLength": 30}}
    assert schema([rule(text)], l=few).rule_problems() == []


TIME, DURATION = {"type": "string", "format": "date-time"}, {"type": "string", "format": "duration"}


@pytest.mark.parametrize(("text", "good", "bad"), [
    ("isURL(self.a)", {"a": "https://x"}, {"a": "x y"}),
    ("self.t > timestamp('2020-01-01T00:00:00Z')", {"t": "2020-01-01T00:00:00.1Z"},
     {"t": "2019-12-31T23:59:59Z"}),
    ("self.d <= duration('1h')", {"d": "60m"}, {"d": "61m"}),
    ("self.b == b'abc'", {"b": "YWJj"}, {"b": "YQ=="}),
    ("type(self.e) == string ? self.e == '1%' : self.e == 1", {"e": 1}, {"e": "1"}),
    ("self.f == 1.0", {"f": 1}, {"f": 1.5}),
])  # fmt: skip
def test_rules_over_every_type(text, good, bad):
    typed = schema(
        [rule(text)], a=TEXT, t=TIME, d=DURATION, b={"type": "string", "format": "byte"},
        e={"x-kubernetes-int-or-string": True}, f={"type": "number"},
    )  # fmt: skip
    assert typed.rule_problems() == []
    assert wrong(typed, good) == []
    assert wrong(typed, bad) != []


def test_a_rule_with_an_optional_old_self_is_evaluated_for_new_values_too():
    grows = rule("oldSelf.hasValue() ? self.a > oldSelf.value().a : self.a == 0", "grows",
                 optionalOldSelf=True)  # fmt: skip
    compiled = schema([grows], a=NUMBER)
    assert compiled.rule_problems() == []
    assert wrong(compiled, {"a": 0}) == []
    assert wrong(compiled, {"a": 1}) != []
    assert wrong(compiled, {"a": 2}, {"a": 1}) == []
    assert wrong(compiled, {"a": 1}, {"a": 2}) != []


@pytest.mark.parametrize("rules", [[rule("true")] * 1001, [rule("self.a > " + "1" * 9000)] * 15])
def test_a_schema_has_a_limited_number_of_rules(rules):
    (cause,) = schema(rules, a=NUMBER).rule_problems()
    assert "must have at most 1000 rules with 131072 characters" in cause.message


@pytest.mark.parametrize(("text", "good", "bad"), [
    ("self.s == self.t", {"s": ["a", "b"], "t": ["b", "a"]}, {"s": ["a"], "t": ["b"]}),
    ("self.s + self.t == ['c', 'b', 'a']", {"s": ["a", "b"], "t": ["b", "c"]}, {"s": [], "t": []}),
    ("(self.m + self.m).size() == 2", {"m": [{"k": 1}, {"k": 2}]}, {"m": [{"k": 1}]}),
])  # fmt: skip
def test_the_order_of_sets_does_not_count(text, good, bad):
    unique = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}
    item = {"type": "object", "required": ["k"], "properties": {"k": NUMBER}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map",
             "x-kubernetes-list-map-keys": ["k"]}  # fmt: skip
    compiled = schema([rule(text)], s=unique, t=unique, m=keyed)
    assert wrong(compiled, good) == []
    assert wrong(compiled, bad) != []


def test_the_order_of_a_keyed_list_may_change_if_it_is_immutable():
    item = {"type": "object", "required": ["k"], "properties": {"k": NUMBER}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map",
             "x-kubernetes-list-map-keys": ["k"],
             "x-kubernetes-validations": [rule("self == oldSelf")]}  # fmt: skip
    compiled = schema(m=keyed)
    assert wrong(compiled, {"m": [{"k": 2}, {"k": 1}]}, {"m": [{"k": 1}, {"k": 2}]}) == []
    assert wrong(compiled, {"m": [{"k": 2}]}, {"m": [{"k": 1}, {"k": 2}]}) != []
