"""Structural schemas, compared with the recorded responses of a real kube-apiserver."""

import json
from pathlib import Path

import pytest

from holdfast.runtime.errors import Invalid
from holdfast.server.schema.structural import StructuralSchema

RECORDED = json.loads(Path(__file__).with_name("structural_cases.json").read_text())
ROOT = StructuralSchema.compile(RECORDED["schema"])


def compiled(**properties):
    spec = {"type": "object", "properties": properties}
    return StructuralSchema.compile({"type": "object", "properties": {"spec": spec}})


def wrong(schema, spec, old=None):
    was = None if old is None else {"spec": old}
    return [(c.field, c.message) for c in schema.validate({"spec": spec}, was)]


def shown(case):
    return json.dumps(case.get("spec", case.get("schema")))[:60]


@pytest.mark.parametrize("case", RECORDED["values"], ids=shown)
def test_values_are_validated_as_by_a_real_api_server(case):
    pruned, _ = ROOT.prune({"spec": case["spec"]})
    filled = ROOT.default(pruned)
    causes = sorted([c.reason, c.field, c.message] for c in ROOT.validate(filled))
    assert causes == case.get("causes", [])
    if "stored" in case:
        assert filled["spec"] == case["stored"]


@pytest.mark.parametrize("case", RECORDED["schemas"], ids=shown)
def test_schemas_are_validated_as_by_a_real_api_server(case):
    try:
        StructuralSchema.compile(case["schema"])
        causes = []
    except Invalid as refused:
        causes = sorted([c.field, c.message] for c in refused.details.causes)
    assert causes == case["causes"]


def test_unknown_fields_are_dropped_and_listed():
    obj = {
        "apiVersion": "x.io/v1",
        "metadata": {"name": "q", "foo": 1},
        "spec": {
            "zip": 1,
            "objs": [{"n": "a", "u": 1}],
            "nested": {"x": {"y": "1", "z": 2}},
            "er": {"apiVersion": "v1", "kind": "X", "metadata": {"q": 1}, "free": 1},
            "o": {"any": 1},
        },
        "other": 1,
    }
    pruned, dropped = ROOT.prune(obj)
    assert pruned == {
        "apiVersion": "x.io/v1",
        "metadata": {"name": "q"},
        "spec": {
            "objs": [{"n": "a"}],
            "nested": {"x": {"y": "1"}},
            "er": {"apiVersion": "v1", "kind": "X", "metadata": {}, "free": 1},
            "o": {"any": 1},
        },
    }
    assert sorted(dropped) == [
        "metadata.foo", "other", "spec.er.metadata.q", "spec.nested.x.z", "spec.objs[0].u",
        "spec.zip",
    ]  # fmt: skip


def test_preserve_unknown_fields_keeps_unknown_fields_and_validates_known_ones():
    schema = compiled(
        free={
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }
    )
    free = {"anything": {"x": [1]}, "known": {"a": "1", "b": 2}}
    pruned, dropped = schema.prune({"spec": {"free": free}})
    assert pruned == {"spec": {"free": {"anything": {"x": [1]}, "known": {"a": "1"}}}}
    assert dropped == ["spec.free.known.b"]


def test_defaults_are_set_in_existing_objects():
    schema = compiled(
        a={"type": "integer", "default": 5},
        d={
            "type": "object",
            "default": {},
            "properties": {"e": {"type": "string", "default": "x"}},
        },
        f={"type": "object", "properties": {"g": {"type": "boolean", "default": False}}},
        l={
            "type": "array",
            "items": {"type": "object", "properties": {"p": {"type": "integer", "default": 0}}},
        },
        m={"type": "object", "additionalProperties": {"type": "object", "properties": {
            "q": {"type": "integer", "default": 1}}}},
    )  # fmt: skip
    assert schema.default({"metadata": {}}) == {"metadata": {}}
    filled = schema.default({"spec": {"l": [{}, {"p": 9}], "m": {"k": {}}}})["spec"]
    assert filled == {
        "l": [{"p": 0}, {"p": 9}],
        "m": {"k": {"q": 1}},
        "a": 5,
        "d": {"e": "x"},
    }


def test_defaults_are_copies():
    schema = compiled(d={"type": "object", "default": {"x": []}, "properties": {
        "x": {"type": "array", "items": {"type": "string"}}}})  # fmt: skip
    schema.default({"spec": {}})["spec"]["d"]["x"].append("mine")
    assert schema.default({"spec": {}}) == {"spec": {"d": {"x": []}}}


def test_null_is_replaced_by_the_default_unless_nullable():
    schema = compiled(
        a={"type": "integer", "default": 5},
        b={"type": "integer"},
        c={"type": "integer", "nullable": True, "default": 1},
    )
    assert schema.default({"spec": {"a": None, "b": None, "c": None}}) == {
        "spec": {"a": 5, "c": None}
    }


def test_inputs_are_not_changed():
    obj = {"spec": {"zip": 1, "objs": [{"u": 1}], "e": None}}
    before = json.dumps(obj)
    ROOT.validate(ROOT.default(ROOT.prune(obj)[0]))
    assert json.dumps(obj) == before


def test_an_unchanged_invalid_value_is_ignored():
    schema = compiled(
        a={"type": "integer", "maximum": 3},
        b={"type": "integer"},
        l={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 3}},
            },
        },
        s={"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    )
    old = {"a": 9, "l": [{"k": "x", "v": 9}], "s": ["d", "d"]}
    assert wrong(schema, old | {"b": 1}, old) == []
    assert wrong(schema, old | {"a": 10}, old) != []
    moved = old | {"l": [{"k": "new", "v": 1}, {"k": "x", "v": 9}]}
    assert wrong(schema, moved, old) == []
    changed = old | {"l": [{"k": "x", "v": 8}]}
    assert [field for field, _ in wrong(schema, changed, old)] == ["spec.l[0].v"]
    assert [f for f, _ in wrong(schema, old | {"s": ["d", "d", "e"]}, old)] == ["spec.s[1]"]


def test_a_schema_that_is_not_structural_is_rejected_with_its_paths():
    with pytest.raises(Invalid) as refused:
        compiled(a={})
    (cause,) = refused.value.details.causes
    assert cause.field == "properties[spec].properties[a].type"
    with pytest.raises(Invalid, match="must be a valid regular expression"):
        compiled(a={"type": "string", "pattern": "("})


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2024-02-29T23:59:59.5+01:00", "2023-02-29T00:00:00Z"),
        ("date-time", "2024-01-01t00:00:00z", "2024-01-01T24:00:00Z"),
        ("date", "2024-01-01", "20240101"),
        ("duration", "1h30m", "1 fortnight"),
        ("duration", "2 days", ""),
        ("byte", "aGk=", "aGk"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "00:1a:2b:3c:4d:5e", "00:1a"),
        ("uuid4", "6fa459ea-ee8a-4ca4-894e-db77e160355e", "6fa459ea-ee8a-3ca4-894e-db77e160355e"),
        ("uri", "https://x/y", "no uri"),
        ("email", "a@b.c", "a.b.c"),
        ("hostname", "a-b.example.com", "-a.example.com"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b-c", "A.b"),
    ],
)
def test_formats(name, good, bad):
    schema = compiled(f={"type": "string", "format": name})
    assert wrong(schema, {"f": good}) == []
    assert [field for field, _ in wrong(schema, {"f": bad})] == ["spec.f"]


def test_an_unknown_format_is_ignored():
    assert wrong(compiled(f={"type": "string", "format": "recipe"}), {"f": "eggs"}) == []


def test_lists_of_names_are_checked_in_full():
    """Names that are valid are remembered; one that is not is still found, with its index."""
    names = {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"}
    listed = {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "set", "items": names}
    schema = StructuralSchema.compile({"type": "object", "properties": {"names": listed}})

    def wrong(*values):
        pruned, _ = schema.prune({"names": list(values)})
        return [cause.field for cause in schema.validate(schema.default(pruned))]

    for _ in range(2):
        assert wrong("a", "b") == []
        assert wrong("a", "B", "abcdef", "c") == ["names[1]", "names[2]"]
        assert wrong("a", "b", "a") == ["names[2]"]
        assert wrong("a", 3, True) == ["names[1]", "names[2]"]
