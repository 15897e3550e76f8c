"""What is wrong with a stored ResourcePolicy, and whether it is followed nevertheless."""

import pytest

from holdfast.runtime.errors import BadRequest, Invalid, aggregate_message
from holdfast.state.resource_policies.policies import compile_policy
from holdfast.testing import a_resource_policy, a_unit, typed

NEGATIVE = "must be greater than or equal to 0"


def policy(*units, **spec):
    return typed(a_resource_policy("p", pods={"app": "web"}, units=units, **spec))


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (
            {"pod_labels": {"app": "x"}},
            'spec.units[0].podLabels: Forbidden: "app" may not be in podSelector or matchLabelKeys',
        ),
        (
            {"pod_labels": {"team": "x"}},
            'spec.units[0].podLabels: Forbidden: "team" may not be in podSelector or',
        ),
        (
            {"pod_labels": {"hash": "x"}},
            'spec.units[0].podLabels: Forbidden: "hash" may not be in podSelector or',
        ),
        ({"pod_labels": {"a b": "x"}}, 'spec.units[0].podLabels: Invalid value: "a b": '),
        ({"pod_labels": {"a": "x y"}}, 'spec.units[0].podLabels[a]: Invalid value: "x y": '),
        ({"pod_annotations": {"a b": "x"}}, 'spec.units[0].podAnnotations: Invalid value: "a b": '),
        (
            {"pod_annotations": {"controller.kubernetes.io/pod-deletion-cost": "1"}},
            'spec.units[0].podAnnotations: Forbidden: "controller.kubernetes.io/pod-deletion-cost"',
        ),
        (
            {"pod_annotations": {"scheduling.koordinator.sh/reserve-pod": "true"}},
            'spec.units[0].podAnnotations: Forbidden: "scheduling.koordinator.sh/reserve-pod" has',
        ),
        (
            {"pod_labels": {"scheduling.koordinator.sh/reservation-ignored": "true"}},
            'spec.units[0].podLabels: Forbidden: "scheduling.koordinator.sh/reservation-ignored"',
        ),
    ],
)
def test_a_policy_that_would_write_wrong_metadata_is_not_followed(unit, text):
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "team", "operator": "Exists"}],
    }
    obj = policy(a_unit("od", **unit), pod_selector=selector, match_label_keys=["hash"])
    with pytest.raises(Invalid) as refusal:
        compile_policy(obj)
    assert text in refusal.value.message


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (
            policy(a_unit("od"), a_unit("spot"), a_unit("od"), {}, {}),
            'spec.units[2].name: Duplicate value: "od"',
        ),
        (
            policy(a_unit("od"), match_label_keys=["hash", "app"]),
            'spec.matchLabelKeys[1]: Invalid value: "app": may not be in podSelector as well',
        ),
        (
            policy(a_unit("od"), match_label_keys=["hash", "hash"]),
            'spec.matchLabelKeys[1]: Duplicate value: "hash"',
        ),
        (policy({}, a_unit("unit-0")), 'spec.units[1].name: Duplicate value: "unit-0"'),
        (
            policy(a_unit("od"), when_try_next_units="TimeoutOrExceedMax", timeout="-1m"),
            'spec.whenTryNextUnits.timeout: Invalid value: "-1m": ' + NEGATIVE,
        ),
        (
            policy(a_unit("od"), when_try_next_units="ExceedMax", timeout="1m"),
            "spec.whenTryNextUnits.timeout: Forbidden: may not be specified unless `policy` is "
            "'TimeoutOrExceedMax'",
        ),
        (
            policy(a_unit("od", max_resources={"cpu": -1})),
            "spec.units[0].maxResources[cpu]: Invalid value: -1: " + NEGATIVE,
        ),
        (
            policy(a_unit("od", max_resources={"cpus": 1})),
            'spec.units[0].maxResources[cpus]: Invalid value: "cpus": must be a resource that pods '
            "request",
        ),
        (
            policy(a_unit("od"), strategy="maybe"),
            'spec.strategy: Unsupported value: "maybe": supported values: "prefer", "required"',
        ),
        (
            policy(a_unit("od", -1)),
            "spec.units[0].priority: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            policy(a_unit("od", max_count=-3)),
            "spec.units[0].maxCount: Invalid value: -3: must be greater than or equal to 0",
        ),
    ],
)
def test_a_policy_whose_meaning_is_clear_is_followed_and_has_problems(obj, text):
    assert aggregate_message(compile_policy(obj).problems) == text


def test_a_valid_policy_has_no_problems():
    labels = {"tier": "od", "example.com/x": ""}
    notes = {"example.com/note": "any text"}
    unit = a_unit("od", max_count=0, pod_labels=labels, pod_annotations=notes)
    assert compile_policy(policy(unit, {}, {}, match_label_keys=["hash"])).problems == ()


@pytest.mark.parametrize("spec", [{}, {"units": []}, {"units": None}])
def test_a_policy_without_units_does_not_reject_the_pods_of_the_namespace(spec):
    with pytest.raises(Invalid, match=r"spec.units: Required value: without units no pod could be"):
        compile_policy(typed({**a_resource_policy("p"), "spec": spec}))


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (policy(*[a_unit()] * 33), "spec.units"),
        (policy(match_label_keys=[f"k{i}" for i in range(65)]), "spec.matchLabelKeys"),
        (
            policy(a_unit(nodes={f"k{i}": "" for i in range(257)})),
            "spec.units[0].nodeSelector.matchLabels",
        ),
        (policy(a_unit(pod_labels={f"k{i}": "" for i in range(257)})), "spec.units[0].podLabels"),
    ],
)
def test_a_policy_with_too_long_lists_is_not_followed(obj, field):
    with pytest.raises(BadRequest) as refusal:
        compile_policy(obj)
    assert refusal.value.message.startswith(f"{field}: Too many: ")
