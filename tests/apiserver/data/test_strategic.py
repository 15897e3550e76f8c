"""Strategic merge patches as kubectl apply, edit, cordon, taint and drain send them."""

import copy

import pytest

from holdfast.api import scheme
from holdfast.runtime.errors import BadRequest, Unsupported
from holdfast.server.schema.strategic_merge_patch import strategic_merge

POD = ("", "v1", "Pod")


def pod(*names, **spec):
    return {"spec": {"containers": [{"name": n, "image": "old"} for n in names], **spec}}


def names(merged, field="containers"):
    return [c["name"] for c in merged["spec"][field]]


def test_containers_merge_by_name_and_keep_their_order():
    current = pod("a", "b", "c")
    merged = strategic_merge(
        POD, current, {"spec": {"containers": [{"name": "b", "image": "new"}]}}
    )
    assert merged["spec"]["containers"] == [
        {"name": "a", "image": "old"}, {"name": "b", "image": "new"}, {"name": "c", "image": "old"},
    ]  # fmt: skip


def test_inputs_are_not_changed():
    current = pod("a", "b")
    patch = {"spec": {"$retainKeys": ["containers"], "containers": [{"name": "a", "image": "new"}]}}
    before = copy.deepcopy((current, patch))
    strategic_merge(scheme.PODS, current, patch)
    assert (current, patch) == before


def test_an_item_with_patch_delete_is_removed_and_others_are_kept():
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}],
            "containers": [{"name": "b", "$patch": "delete"}],
        }
    }
    assert names(strategic_merge(POD, pod("a", "b", "sidecar"), patch)) == ["a", "sidecar"]


def test_set_element_order_reorders_listed_items_and_other_items_keep_their_places():
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "c"}],
        }
    }
    assert names(strategic_merge(POD, pod("a", "x", "c"), patch)) == ["x", "c", "a"]
    assert names(strategic_merge(POD, pod("a", "c", "x"), patch)) == ["c", "a", "x"]
    assert names(strategic_merge(POD, pod("x", "a", "c"), patch)) == ["x", "c", "a"]


def test_a_new_item_takes_the_place_of_a_deleted_one():
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "new"}],
            "containers": [{"name": "old", "$patch": "delete"}, {"name": "new"}],
        }
    }
    assert names(strategic_merge(POD, pod("a", "old", "x"), patch)) == ["a", "x", "new"]


def test_patch_replace_in_a_list_keeps_only_the_items_of_the_patch():
    patch = {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}
    assert names(strategic_merge(POD, pod("a", "b"), patch)) == ["z"]


def test_lists_without_a_merge_key_are_replaced_whole():
    current = pod("a", tolerations=[{"key": "x"}, {"key": "y"}])
    patch = {"spec": {"tolerations": [{"key": "z"}]}}
    assert strategic_merge(POD, current, patch)["spec"]["tolerations"] == [{"key": "z"}]


def test_taints_are_replaced_as_kubectl_taint_expects():
    current = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "unschedulable": True}}
    patch = {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}], "unschedulable": None}}
    spec = strategic_merge(scheme.NODES, current, patch)["spec"]
    assert spec == {"taints": [{"key": "b", "effect": "NoExecute"}]}


def test_null_removes_a_field_even_if_it_is_absent():
    current = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    patch = {"metadata": {"labels": {"a": None, "c": None}, "annotations": {"x": None, "y": "1"}}}
    merged = strategic_merge(POD, current, patch)
    assert merged == {"metadata": {"labels": {"b": "2"}, "annotations": {"y": "1"}}}


def test_maps_can_be_replaced_or_emptied():
    current = pod("a", nodeSelector={"a": "b"})
    replaced = {"spec": {"nodeSelector": {"$patch": "replace", "c": "d"}}}
    assert strategic_merge(POD, current, replaced)["spec"]["nodeSelector"] == {"c": "d"}
    emptied = {"spec": {"nodeSelector": {"$patch": "delete"}}}
    assert strategic_merge(POD, current, emptied)["spec"]["nodeSelector"] == {}


def test_retain_keys_drops_the_other_volume_source():
    current = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    volume = {"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}
    merged = strategic_merge(POD, current, {"spec": {"volumes": [volume]}})
    assert merged["spec"]["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


def test_scalars_merge_as_a_set_and_can_be_deleted_one_by_one():
    current = {"metadata": {"finalizers": ["a", "b"]}}
    grown = strategic_merge(POD, current, {"metadata": {"finalizers": ["c", "a"]}})
    assert sorted(grown["metadata"]["finalizers"]) == ["a", "b", "c"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert strategic_merge(POD, current, patch)["metadata"]["finalizers"] == ["b"]


def test_conditions_in_the_status_merge_by_type():
    current = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}
    merged = strategic_merge(POD, current, patch)["status"]["conditions"]
    assert {c["type"] for c in merged} == {"Ready", "PodScheduled"}


def test_directives_are_removed_from_new_values():
    patch = {
        "spec": {
            "containers": [
                {"name": "n", "env": [{"name": "E", "$patch": "delete"}, {"name": "F"}]}
            ],
            "$setElementOrder/containers": [{"name": "n"}],
            "securityContext": {"$retainKeys": ["runAsUser"], "runAsUser": 1},
        }
    }
    assert strategic_merge(POD, {}, patch) == {
        "spec": {
            "containers": [{"name": "n", "env": [{"name": "F"}]}],
            "securityContext": {"runAsUser": 1},
        }
    }


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers.*merge key: name"),
        ({"spec": {"$patch": "explode"}}, "at spec: unknown patch type"),
        ({"spec": {"$retainKeys": ["a"], "b": 1}}, "retainKeys"),
        ({"spec": {"$retainKeys": "a"}}, "must be a list"),
        (
            {
                "spec": {
                    "containers": [{"name": "b"}, {"name": "a"}],
                    "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                }
            },
            "spec.containers.*order",
        ),
    ],
)
def test_the_error_of_an_invalid_patch_contains_the_path(patch, words):
    with pytest.raises(BadRequest, match=words):
        strategic_merge(POD, pod("a", "b"), patch)


def test_custom_resources_reject_strategic_merge():
    with pytest.raises(Unsupported, match="merge-patch"):
        strategic_merge(scheme.RESERVATIONS, {}, {})
