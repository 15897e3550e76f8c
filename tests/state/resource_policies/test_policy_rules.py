"""The rules of resource policies that scheduler, controller and CLI share."""

import logging

import pytest

from holdfast.runtime.errors import Invalid
from holdfast.scheduling.framework.world import World
from holdfast.state.resource_policies.policies import bound_time, compile_policy
from holdfast.testing import a_pod, a_resource_policy, a_unit, typed


def compiled(**spec):
    policy = a_resource_policy("web", **spec)
    policy["metadata"]["creationTimestamp"] = "2026-01-01T00:00:10Z"
    return compile_policy(typed(policy))


def web(**more):
    return a_pod("p", labels={"app": "web"}, **more)


def errors_of(**spec):
    with pytest.raises(Invalid) as raised:
        compiled(**spec)
    return [cause.field for cause in raised.value.details.causes]


def test_fields_without_a_meaning_are_named():
    sideways = {"matchExpressions": [{"key": "app", "operator": "Sideways"}]}
    unit = a_unit("a", maxResources={"cpu": "many", "memory": "1Gi"}) | {"nodeSelector": sideways}
    assert errors_of(
        pod_selector=sideways,
        units=[a_unit(), unit],
        when_try_next_units={"policy": "Sometimes"},
        preempt_policy="Never",
    ) == [
        "spec.podSelector",
        "spec.units[1].maxResources[cpu]",
        "spec.units[1].nodeSelector",
        "spec.whenTryNextUnits.policy",
        "spec.preemptPolicy",
    ]
    late = {"policy": "TimeoutOrExceedMax", "timeout": "soon"}
    assert errors_of(when_try_next_units=late) == ["spec.whenTryNextUnits.timeout"]


def test_old_objects_are_read_where_the_meaning_is_clear():
    policy = compiled(strategy="maybe", units=[a_unit("a", -5, maxCount=-3), a_unit("", 10**30)])
    assert policy.strict
    assert [(u.name, u.priority, u.max_count) for u in policy.units] == [
        ("a", 0, 0),
        ("unit-1", 2**62, None),
    ]
    policy = compiled(when_try_next_units={"policy": "ExceedMax", "timeout": "soon"})
    assert policy.timeout == 0


def test_caps_on_resources_are_rounded_down():
    amounts = {"cpu": "1500.5m", "memory": "1Ki", "example.com/gpu": 2, "pods": "-1"}
    (unit,) = compiled(units=[a_unit("a", maxResources=amounts)]).units
    assert unit.max_resources == {"cpu": 1500, "memory": 1024, "example.com/gpu": 2, "pods": 0}


def test_a_group_is_the_keys_that_the_pod_has():
    policy = compiled(match_label_keys=["b", "a"])
    assert policy.group_key({"a": "1", "app": "web"}) == (("a", "1"),)
    assert policy.group_key({"a": "1", "b": "2"}) == (("b", "2"), ("a", "1"))
    assert policy.missing_keys({"a": "1"}) == ("b",)


def test_finished_and_terminating_pods():
    gone = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    ending = web()
    ending["metadata"] |= gone["metadata"]
    counts, ignores = compiled(), compiled(match_policy={"ignoreTerminatingPod": True})
    assert counts.counts_pod(typed(web()))
    assert not counts.counts_pod(typed(web() | {"status": {"phase": "Failed"}}))
    assert counts.counts_pod(typed(ending))
    assert not ignores.counts_pod(typed(ending))
    assert not counts.counts_pod(typed(a_pod(labels={"app": "db"})))
    assert not counts.counts_pod(typed(web(namespace="other")))


def at(second, **status):
    pod = web(node="n")
    pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    return typed(pod | {"status": status})


def test_pods_bound_before_the_policy_may_be_ignored():
    policy = compiled(match_policy={"ignorePreviousPod": True})
    scheduled = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}
    ]
    assert not policy.counts_pod(at(9))
    assert policy.counts_pod(at(10))
    assert policy.counts_pod(at(9, startTime="2026-01-01T00:00:11Z"))
    assert policy.counts_pod(at(1, startTime="2026-01-01T00:00:02Z", conditions=scheduled))
    waiting = [scheduled[0] | {"status": "False"}]
    assert not policy.counts_pod(at(1, conditions=waiting))
    assert compiled().counts_pod(at(1))
    # A pod that is not bound is assumed at most: it will be bound later than the policy.
    assert policy.counts_pod(typed(web()))


def test_a_time_that_cannot_be_read_is_skipped():
    assert bound_time(at(7, startTime="yesterday")) == bound_time(at(7))
    assert bound_time(typed(web())) is None


def test_units_and_costs_of_nodes():
    policy = compiled(
        units=[a_unit("od", 5), a_unit("spot", 4), a_unit("every", 4, nodes={}), a_unit("x", 9)]
    )
    assert policy.units_of({"pool": "od"}) == (0, 2)
    assert policy.units_of({}) == (2,)
    assert [policy.best_unit(units) for units in ((0, 2), (1, 2), ())] == [0, 1, None]
    assert [policy.deletion_cost(units) for units in ((), (1,), (2, 0), (3,))] == [0, 100, 200, 300]


def test_a_policy_that_cannot_be_compiled_governs_nothing_and_is_logged_once(caplog):
    world = World()
    broken = a_resource_policy("web", preempt_policy="Never")
    world.upsert(typed(a_resource_policy("web")))
    with caplog.at_level(logging.WARNING):
        world.upsert(typed(broken))
        world.upsert(typed(broken | {"status": {"observedGeneration": 1}}))
    assert [record.getMessage() for record in caplog.records] == [
        'the policy governs no pods: ResourcePolicy.scheduling.sigs.x-k8s.io "default/web" is '
        'invalid: spec.preemptPolicy: Unsupported value: "Never": supported values: '
        '"AfterAllUnits", "BeforeNextUnit"'
    ]
    assert not world.policies.governing(world.pod_info(typed(web())))
    world.upsert(typed(a_resource_policy("web")))
    assert world.policies.governing(world.pod_info(typed(web())))


def test_a_new_status_invalidates_no_cache():
    world = World()
    world.upsert(typed(a_resource_policy("web")))
    before = world.nodes.epochs["policies"]
    world.upsert(typed(a_resource_policy("web") | {"status": {"observedGeneration": 7}}))
    assert world.nodes.epochs["policies"] == before
    (policy,) = world.policies
    assert policy.object.status.observed_generation == 7
