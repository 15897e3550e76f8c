"""Every list and map of the table is counted, in JSON and in typed objects alike."""

import pytest

from holdfast.api.validation import list_limits
from holdfast.api.validation.counting import tree_of
from holdfast.api.validation.list_limits import (
    ANY_TREE,
    NODE_TREE,
    POD_SPEC_TREE,
    check_lists,
    first_excess,
)
from holdfast.testing import a_node, a_pod, typed


def filled(path, count):
    """Return an object in which only the list at ``path`` has entries."""
    name, _, rest = path.partition(".")
    inner = filled(rest, count) if rest else [{}] * count
    return {name.removesuffix("[]"): [inner] if name.endswith("[]") else inner}


TABLES = {
    name: table
    for name, table in vars(list_limits).items()
    if isinstance(table, dict) and "metadata.labels" in table
}


@pytest.mark.parametrize("name", TABLES)
def test_a_list_may_have_as_many_entries_as_the_table_says(name):
    tree = tree_of(TABLES[name])
    for path, most in TABLES[name].items():
        if path.endswith("{}"):
            continue
        assert not list(check_lists(tree, filled(path, most)))
        [cause] = check_lists(tree, filled(path, most + 1))
        assert cause.field == path.replace("[]", "[0]")
        assert cause.message == f"Too many: {most + 1}: must have at most {most} items"


def test_a_stored_list_beyond_the_limit_may_stay_but_not_grow():
    before, after = filled("metadata.finalizers", 2000), filled("metadata.finalizers", 2001)
    assert not list(check_lists(ANY_TREE, before, before))
    assert not list(check_lists(ANY_TREE, filled("metadata.finalizers", 1999), before))
    [cause] = check_lists(ANY_TREE, after, before)
    assert cause.message == "Too many: 2001: must have at most 1024 items"


@pytest.mark.parametrize(
    "odd", [{"spec": []}, {"spec": {"containers": "x"}}, {"spec": {"containers": [1, None]}},
            {"metadata": 5}, {"spec": {"affinity": [{}]}}],
)  # fmt: skip
def test_fields_of_another_type_are_skipped(odd):
    assert not list(check_lists(tree_of(list_limits.POD), odd))


def test_typed_objects_are_counted_too():
    tolerations = [{"key": "a", "operator": "Exists"}] * 513
    words = "spec.tolerations: Too many: 513: must have at most 512 items"
    assert first_excess(POD_SPEC_TREE, typed(a_pod(tolerations=tolerations))) == words
    assert first_excess(POD_SPEC_TREE, typed(a_pod(tolerations=tolerations[:512]))) == ""
    node = a_node("n")
    node["status"]["allocatable"] = {f"example.com/r{i}": "1" for i in range(600)}
    words = "status.allocatable: Too many: 600: must have at most 512 items"
    assert first_excess(NODE_TREE, typed(node)) == words


@pytest.mark.parametrize("as_typed", [False, True])
def test_the_requirements_of_many_selectors_are_counted_together(as_typed):
    def affinity(terms, each):
        expressions = [{"key": f"k{i}", "operator": "Exists"} for i in range(each)]
        term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": expressions}}
        listed = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * terms}
        return a_pod(affinity={"podAntiAffinity": listed})

    def excess(raw):
        if as_typed:
            return first_excess(POD_SPEC_TREE, typed(raw))
        return "".join(
            f"{c.field}: {c.message}" for c in check_lists(tree_of(list_limits.POD), raw)
        )

    assert excess(affinity(64, 4)) == ""
    words = "spec.affinity.podAntiAffinity: Too many: 300: must have at most 256 items"
    assert excess(affinity(60, 5)) == words
