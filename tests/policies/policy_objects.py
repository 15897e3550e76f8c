"""Resource policies that every API server must accept, and some that it must refuse.

The embedded server is tested with them here, a real kube-apiserver in ``tests/real``.
"""

from holdfast.testing import a_resource_policy, a_unit

OVER_253 = ".".join(["a" * 63] * 4) + "/x"
HASH = "pod-template-hash"


def policy(*units, **spec):
    return a_resource_policy("p", pods={"app": "web"}, units=units or [a_unit("od", 5)], **spec)


def raw(spec):
    """A policy whose spec is exactly this."""
    return {**policy(), "spec": spec}


def selected_by(**expression):
    """A policy whose podSelector is one expression."""
    return policy(pod_selector={"matchExpressions": [expression]})


def unit(**fields):
    """A policy of which the second unit has these fields."""
    return policy(a_unit("od", 5), a_unit("spot", **fields))


MANY_LABELS = {f"example.com/label-{i}": "v" for i in range(64)}
MANY_EXPRESSIONS = [
    {"key": f"example.com/key-{i}", "operator": "In", "values": [f"v{j}" for j in range(8)]}
    for i in range(32)
]
LARGEST = policy(
    *(
        {
            "name": f"unit{i}",
            "priority": 1_000_000,
            "maxCount": 2**31 - 1,
            "maxResources": {f"example.com/{'r' * 50}-{j}": "1e3" for j in range(32)},
            "nodeSelector": {"matchLabels": MANY_LABELS, "matchExpressions": MANY_EXPRESSIONS},
            "podLabels": {f"example.com/written-{j}": "v" * 63 for j in range(32)},
            "podAnnotations": {f"example.com/written-{j}": "v" * 100 for j in range(32)},
        }
        for i in range(32)
    ),
    pod_selector={"matchLabels": MANY_LABELS, "matchExpressions": MANY_EXPRESSIONS},
    match_label_keys=[f"example.com/{'k' * 60}{i}" for i in range(64)],
)

GOOD = {
    "one unit for all pods and nodes": raw({"units": [{}]}),
    "empty selectors": raw({"podSelector": {}, "units": [{"nodeSelector": {}}]}),
    "units without names": policy({}, {}, {"name": ""}, {"name": "od"}),
    "every field": policy(
        a_unit(
            "od",
            5,
            max_count=2,
            max_resources={
                "cpu": 3,
                "memory": "4Gi",
                "example.com/gpu": "1",
                "hugepages-2Mi": "1Gi",
                "ephemeral-storage": 0,
            },
            pod_labels={"tier": "od", "example.com/empty": ""},
            pod_annotations={"example.com/note": "any text: {1}"},
        ),
        a_unit("spot", 4, max_count=0),
        match_label_keys=[HASH, "example.com/team"],
        match_policy={"ignoreTerminatingPod": True, "ignorePreviousPod": True},
        strategy="prefer",
        when_try_next_units="TimeoutOrExceedMax",
        timeout="1h30m",
        preempt_policy="BeforeNextUnit",
    ),
    "the largest numbers": unit(priority=1_000_000, max_count=2**31 - 1),
    "no timeout": policy(when_try_next_units="TimeoutOrExceedMax"),
    "the timeout 0": policy(when_try_next_units="TimeoutOrExceedMax", timeout="0"),
    "fractions of a duration": policy(when_try_next_units="TimeoutOrExceedMax", timeout="1.5h30s"),
    "try next units, by default": policy(when_try_next_units={}),
    "all operators": policy(
        pod_selector={
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["x", ""]},
                {"key": "a", "operator": "NotIn", "values": ["y"]},
                {"key": "b", "operator": "Exists"},
                {"key": "c", "operator": "DoesNotExist", "values": []},
            ]
        }
    ),
    "units of the same nodes": policy(a_unit("a", nodes={}), a_unit("b", nodes={})),
    "names such as those of units without one": policy(a_unit("unit-1"), a_unit("unit-0")),
    "the longest keys": policy(match_label_keys=[f"{OVER_253[:-4]}/{'n' * 63}", "n" * 63]),
    "the largest policy": LARGEST,
}

BAD = {
    # P049
    "a negative priority": (unit(priority=-1), "spec.units[1].priority"),
    "a negative maxCount": (unit(max_count=-3), "spec.units[1].maxCount"),
    "an unknown strategy": (policy(strategy="maybe"), "spec.strategy"),
    "duplicate unit names": (policy(a_unit("a"), a_unit("b"), a_unit("a")), "spec.units"),
    "In without values": (
        selected_by(key="a", operator="In"),
        "spec.podSelector.matchExpressions[0].values",
    ),
    "a matchLabelKeys key also in podSelector": (
        policy(match_label_keys=["app"]),
        "spec.matchLabelKeys",
    ),
    # selectors
    "the same key in matchExpressions": (
        policy(
            pod_selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            match_label_keys=[HASH, "app"],
        ),
        "spec.matchLabelKeys",
    ),
    "NotIn without values": (
        selected_by(key="a", operator="NotIn", values=[]),
        "spec.podSelector.matchExpressions[0].values",
    ),
    "Exists with values": (
        selected_by(key="a", operator="Exists", values=["x"]),
        "spec.podSelector.matchExpressions[0].values",
    ),
    "In without values on nodes": (
        unit(node_selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
        "spec.units[1].nodeSelector.matchExpressions[0].values",
    ),
    "an unknown operator": (
        selected_by(key="a", operator="Gt", values=["1"]),
        "spec.podSelector.matchExpressions[0].operator",
    ),
    "no operator": (selected_by(key="a"), "spec.podSelector.matchExpressions[0].operator"),
    "no key": (selected_by(operator="Exists"), "spec.podSelector.matchExpressions[0].key"),
    "an empty key": (
        selected_by(key="", operator="Exists"),
        "spec.podSelector.matchExpressions[0].key",
    ),
    "a key with a space": (
        selected_by(key="a b", operator="Exists"),
        "spec.podSelector.matchExpressions[0].key",
    ),
    "a key of which the domain is too long": (
        selected_by(key=OVER_253, operator="Exists"),
        "spec.podSelector.matchExpressions[0].key",
    ),
    "a wrong value in an expression": (
        selected_by(key="a", operator="In", values=["ok", "-x"]),
        "spec.podSelector.matchExpressions[0].values[1]",
    ),
    "a wrong key in matchLabels": (
        policy(pod_selector={"matchLabels": {"a b": "c"}}),
        "spec.podSelector.matchLabels",
    ),
    "a wrong value in matchLabels": (
        policy(pod_selector={"matchLabels": {"a": "b c"}}),
        "spec.podSelector.matchLabels.a",
    ),
    "a value too long in matchLabels": (
        unit(nodes={"a": "b" * 64}),
        "spec.units[1].nodeSelector.matchLabels.a",
    ),
    "a key too long in matchLabels": (
        unit(nodes={"a" * 64: "b"}),
        "spec.units[1].nodeSelector.matchLabels",
    ),
    "a domain too long in matchLabels": (
        unit(nodes={OVER_253: "b"}),
        "spec.units[1].nodeSelector.matchLabels",
    ),
    "a domain with two dots in matchLabels": (
        unit(nodes={"a..b/c": "b"}),
        "spec.units[1].nodeSelector.matchLabels",
    ),
    # matchLabelKeys
    "duplicate matchLabelKeys": (
        policy(match_label_keys=["a", "b", "a"]),
        "spec.matchLabelKeys[2]",
    ),
    "an empty matchLabelKeys key": (policy(match_label_keys=[""]), "spec.matchLabelKeys[0]"),
    "no label key in matchLabelKeys": (
        policy(match_label_keys=["a", "/b"]),
        "spec.matchLabelKeys[1]",
    ),
    "a domain too long in matchLabelKeys": (
        policy(match_label_keys=["a", OVER_253]),
        "spec.matchLabelKeys[1]",
    ),
    # units
    "no units": (raw({}), "spec.units"),
    "an empty list of units": (raw({"units": []}), "spec.units"),
    "33 units": (raw({"units": [{}] * 33}), "spec.units"),
    "a priority above a million": (unit(priority=1_000_001), "spec.units[1].priority"),
    "a maxCount above an int32": (unit(max_count=2**31), "spec.units[1].maxCount"),
    "a maxCount above an int64": (unit(max_count=2**64), "spec.units[1].maxCount"),
    "a fraction as maxCount": (unit(max_count=1.5), "spec.units[1].maxCount"),
    "a string as maxCount": (unit(max_count="3"), "spec.units[1].maxCount"),
    "a unit name with a space": (policy(a_unit("on demand")), "spec.units[0].name"),
    "a unit name that is too long": (policy(a_unit("n" * 64)), "spec.units[0].name"),
    "a name that another unit gets": (policy(a_unit("unit-1"), {}), "spec.units"),
    # maxResources
    "a negative amount": (unit(max_resources={"cpu": "-1"}), "spec.units[1].maxResources[cpu]"),
    "a negative number": (unit(max_resources={"cpu": -1}), "spec.units[1].maxResources[cpu]"),
    "no amount": (unit(max_resources={"cpu": "three"}), "spec.units[1].maxResources[cpu]"),
    "an empty amount": (unit(max_resources={"cpu": ""}), "spec.units[1].maxResources[cpu]"),
    "a fraction as a number": (unit(max_resources={"cpu": 1.5}), "spec.units[1].maxResources.cpu"),
    "a list as an amount": (unit(max_resources={"cpu": [1]}), "spec.units[1].maxResources.cpu"),
    "an unknown resource": (unit(max_resources={"cpus": 1}), "spec.units[1].maxResources"),
    "a wrong resource name": (unit(max_resources={"a b/c": 1}), "spec.units[1].maxResources"),
    # podLabels and podAnnotations
    "a key of podLabels in podSelector": (unit(pod_labels={"app": "x"}), "spec.units"),
    "a key of podLabels in an expression": (
        policy(
            a_unit("od", pod_labels={"b": "x"}),
            pod_selector={"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]},
        ),
        "spec.units",
    ),
    "a key of podLabels in matchLabelKeys": (
        policy(a_unit("od", pod_labels={HASH: "x"}), match_label_keys=[HASH]),
        "spec.units",
    ),
    "a wrong key in podLabels": (unit(pod_labels={"a b": "x"}), "spec.units[1].podLabels"),
    "a wrong value in podLabels": (unit(pod_labels={"a": "x y"}), "spec.units[1].podLabels.a"),
    "a wrong key in podAnnotations": (
        unit(pod_annotations={"a b": "x"}),
        "spec.units[1].podAnnotations",
    ),
    "a number in podAnnotations": (
        unit(pod_annotations={"a": 1}),
        "spec.units[1].podAnnotations.a",
    ),
    "a deletion cost in podAnnotations": (
        unit(pod_annotations={"controller.kubernetes.io/pod-deletion-cost": "1"}),
        "spec.units[1].podAnnotations",
    ),
    "a reserve pod by podAnnotations": (
        unit(pod_annotations={"scheduling.koordinator.sh/reserve-pod": "true"}),
        "spec.units[1].podAnnotations",
    ),
    "a label of reservations in podLabels": (
        unit(pod_labels={"scheduling.koordinator.sh/reservation-ignored": "true"}),
        "spec.units[1].podLabels",
    ),
    # whenTryNextUnits and preemptPolicy
    "an unknown policy": (policy(when_try_next_units="Never"), "spec.whenTryNextUnits.policy"),
    "a timeout without a policy": (
        policy(when_try_next_units={"timeout": "1m"}),
        "spec.whenTryNextUnits.timeout",
    ),
    "a timeout with another policy": (
        policy(when_try_next_units="ExceedMax", timeout="1m"),
        "spec.whenTryNextUnits.timeout",
    ),
    **{
        f"the timeout {text!r}": (
            policy(when_try_next_units="TimeoutOrExceedMax", timeout=text),
            "spec.whenTryNextUnits.timeout",
        )
        for text in ("", "-1m", "soon", "15", "1d", "9999999h", "1m ", "0m0", 60)
    },
    "an unknown preemptPolicy": (policy(preempt_policy="Never"), "spec.preemptPolicy"),
    # other types and shapes
    "no spec": ({k: v for k, v in policy().items() if k != "spec"}, "spec"),
    "null as spec": (raw(None), "spec"),
    "a list as spec": (raw([]), "spec"),
    "null as units": (raw({"units": None}), "spec.units"),
    "an object as units": (raw({"units": {}}), "spec.units"),
    "a string as a unit": (raw({"units": ["od"]}), "spec.units[0]"),
    "null as a unit": (raw({"units": [None]}), "spec.units[0]"),
    "a list as podSelector": (policy(pod_selector=[]), "spec.podSelector"),
    "a list as matchLabels": (
        policy(pod_selector={"matchLabels": []}),
        "spec.podSelector.matchLabels",
    ),
    "an object as matchLabelKeys": (policy(match_label_keys={}), "spec.matchLabelKeys"),
    "a string as a bool": (
        policy(match_policy={"ignoreTerminatingPod": "yes"}),
        "spec.matchPolicy.ignoreTerminatingPod",
    ),
    "65 matchLabelKeys": (
        policy(match_label_keys=[f"k{i}" for i in range(65)]),
        "spec.matchLabelKeys",
    ),
    "65 labels of nodes": (
        unit(nodes={f"k{i}": "v" for i in range(65)}),
        "spec.units[1].nodeSelector.matchLabels",
    ),
    "65 labels of pods": (
        policy(pod_selector={"matchLabels": {f"k{i}": "v" for i in range(65)}}),
        "spec.podSelector.matchLabels",
    ),
    "33 expressions": (
        policy(pod_selector={"matchExpressions": [{"key": "a", "operator": "Exists"}] * 33}),
        "spec.podSelector.matchExpressions",
    ),
    "8193 values": (
        selected_by(key="a", operator="In", values=["v"] * 8193),
        "spec.podSelector.matchExpressions[0].values",
    ),
    "a value of 64 characters": (
        selected_by(key="a", operator="In", values=["v" * 64]),
        "spec.podSelector.matchExpressions[0].values[0]",
    ),
    "33 resources": (
        unit(max_resources={f"example.com/r{i}": 1 for i in range(33)}),
        "spec.units[1].maxResources",
    ),
    "an amount of 65 characters": (
        unit(max_resources={"cpu": "1" * 65}),
        "spec.units[1].maxResources.cpu",
    ),
    "33 podLabels": (
        unit(pod_labels={f"k{i}": "v" for i in range(33)}),
        "spec.units[1].podLabels",
    ),
    "a podLabel of 64 characters": (unit(pod_labels={"a": "v" * 64}), "spec.units[1].podLabels.a"),
    "33 podAnnotations": (
        unit(pod_annotations={f"k{i}": "v" for i in range(33)}),
        "spec.units[1].podAnnotations",
    ),
    "a podAnnotation of 4097 characters": (
        unit(pod_annotations={"a": "v" * 4097}),
        "spec.units[1].podAnnotations.a",
    ),
}
