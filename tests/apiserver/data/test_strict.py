"""Unknown and duplicate fields."""

import pytest

from holdfast.api import scheme
from holdfast.runtime.errors import BadRequest
from holdfast.server.schema import field_validation

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"any": "thing"}, "foo": 1},
    "spec": {
        "containers": [
            {"name": "c", "resources": {"limits": {"example.com/x": 1}, "limit": {}}, "bar": 1}
        ],
        "foo": {"a": 1},
        "nodeselector": {},
        "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"x": "y"}}}],
    },
    "extra": 1,
}


def test_unknown_fields_are_listed_by_path_in_their_order():
    assert field_validation.prune(scheme.PODS, POD)[1] == [
        "metadata.foo",
        "spec.containers[0].resources.limit",
        "spec.containers[0].bar",
        "spec.foo",
        "spec.nodeselector",
        "extra",
    ]


def test_unknown_fields_are_dropped_and_the_others_kept():
    kept, _ = field_validation.prune(("", "v1", "Pod"), POD)
    assert kept["spec"]["containers"] == [
        {"name": "c", "resources": {"limits": {"example.com/x": 1}}}
    ]
    assert kept["spec"]["volumes"] == POD["spec"]["volumes"]
    assert kept["metadata"] == {"name": "p", "labels": {"any": "thing"}}
    assert "extra" not in kept
    assert "extra" in POD


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        (("apps", "v1", "ControllerRevision"), {"data": {"what": {"ever": 1}}}),
        (
            ("resource.k8s.io", "v1", "ResourceClaim"),
            {
                "spec": {
                    "devices": {"config": [{"opaque": {"driver": "d", "parameters": {"x": 1}}}]}
                }
            },
        ),
        (("", "v1", "ConfigMap"), {"data": {"k": "v"}, "binaryData": {"b": ""}}),
        (("example.com", "v1", "Widget"), {"spec": {"size": 1}}),
    ],
)
def test_free_form_parts_and_foreign_kinds_have_no_unknown_fields(kind, obj):
    assert field_validation.prune(kind, obj)[1] == []
    assert field_validation.prune(kind, obj)[0] == obj


def test_maps_of_objects_are_checked_value_by_value():
    slice_ = {"spec": {"devices": [{"attributes": {"a": {"int": 1, "ints": [1], "intt": 2}}}]}}
    kind = ("resource.k8s.io", "v1", "ResourceSlice")
    assert field_validation.prune(kind, slice_)[1] == ["spec.devices[0].attributes.a.intt"]


@pytest.mark.parametrize("spec", [{"containers": "many"}, {"affinity": 3}, {"nodeName": 3}])
def test_values_of_wrong_types_are_rejected(spec):
    with pytest.raises(BadRequest, match="cannot unmarshal"):
        field_validation.prune(scheme.PODS, {"spec": spec})


def test_duplicates_are_listed_by_path():
    body = b'{"metadata":{"name":"q","name":"r"},"spec":{"c":[{"a":1,"a":2}],"d":{"e":1}}}'
    assert field_validation.duplicate_fields(body) == ["metadata.name", "spec.c[0].a"]
    assert field_validation.duplicate_fields(b'{"a":{"b":1},"c":{"b":1}}') == []
    with pytest.raises(BadRequest, match="no JSON"):
        field_validation.duplicate_fields(b"{")


def test_the_messages_are_upstreams():
    words = field_validation.field_warnings(["spec.nope"], ["metadata.name"])
    assert words == ['duplicate field "metadata.name"', 'unknown field "spec.nope"']
    assert field_validation.strict_error_message(words, "Pod", "v1") == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'duplicate field "metadata.name", unknown field "spec.nope"'
    )
