"""The usage of units, counted from objects."""

from random import Random

from holdfast.state.resource_policies.policies import compile_policy
from holdfast.state.resource_policies.policy_usage import usage_of
from holdfast.testing import a_node, a_pod, a_resource_policy, a_unit, typed

NODE = typed(a_node("a1", labels={"tier": "od"}))


def usage(keys, labels, **unit):
    """Return the usage of a unit by pods of these labels."""
    unit = a_unit("od", nodes={"tier": "od"}, **unit)
    policy = compile_policy(
        typed(a_resource_policy("p", pods={}, match_label_keys=keys, units=[unit]))
    )
    pods = [
        typed(a_pod(f"w{i}", node="a1", uid=f"u{i}", labels=some)) for i, some in enumerate(labels)
    ]
    return usage_of(policy, [NODE], pods).units[0]


def test_a_pod_that_lacks_a_key_counts_with_pods_of_every_value():
    random = Random(7)
    labels = [
        {key: random.choice("xyz") for key in "abc" if random.random() < 0.7} for _ in range(60)
    ]
    found = usage(["a", "b", "c"], labels, max_resources={"cpu": "1"})
    for group in found.groups:
        wanted = [f"w{i}" for i, some in enumerate(labels) if {*group.group} <= {*some.items()}]
        assert sorted(pod.name for pod in group.pods) == sorted(wanted)
        assert group.resources == found.group(group.group).resources
    assert len(found.groups) == len({tuple(sorted(some.items())) for some in labels})


def test_thousands_of_groups_are_merged_in_one_pass(monkeypatch):
    labels = [{"job": str(i)} for i in range(3000)]
    found = usage(["job"], [*labels, {}], max_count=5)
    merged = []
    monkeypatch.setattr(type(found), "group", lambda _, key: merged.append(key))
    assert found.over_cap
    assert [len(group.pods) for group in found.groups[:2]] == [3001, 1]
    assert merged == []
