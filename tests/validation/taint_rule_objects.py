"""Good and bad DeviceTaintRules and statuses, by what is good or bad about them."""

from validation.device_builders import LABEL

RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"


def rule(name="one", *, selector=None, **taint):
    spec = {"taint": {"key": "k", "effect": "NoSchedule", **taint}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": spec,
    }


def condition(**parts):
    whole = {
        "type": "EvictionInProgress",
        "status": "True",
        "reason": "PodsPendingEviction",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {**whole, **parts}


GOOD_RULES = {
    "every device": rule(),
    "empty selector": rule(selector={}),
    "one device": rule(selector={"driver": "A.example.com", "pool": "a/b.c", "device": "d"}),
    "no effect": rule(effect="None"),
    "eviction": rule(key="a.com/k", value="v", effect="NoExecute"),
}
BAD_RULES = {
    "no taint": {**rule(), "spec": {}},
    "no key": rule(key=""),
    "bad key": rule(key="a b"),
    "long key": rule(key=LABEL),
    "bad value": rule(value="a b"),
    "long value": rule(value=LABEL),
    "no effect": rule(effect=""),
    "unknown effect": rule(effect="Evict"),
    "empty driver": rule(selector={"driver": ""}),
    "bad driver": rule(selector={"driver": "A_b"}),
    "long driver": rule(selector={"driver": LABEL}),
    "empty pool": rule(selector={"pool": ""}),
    "bad pool": rule(selector={"pool": "a//B"}),
    "long pool": rule(selector={"pool": "p" * 254}),
    "empty device": rule(selector={"device": ""}),
    "bad device": rule(selector={"device": "A"}),
    "long device": rule(selector={"device": LABEL}),
    "name": rule("A"),
}
GOOD_RULE_STATUSES = {
    "condition": {"conditions": [condition()]},
    "8 conditions": {"conditions": [condition(type=f"t{i}") for i in range(8)]},
    "none": {"conditions": []},
}
BAD_RULE_STATUSES = {
    "9 conditions": {"conditions": [condition(type=f"t{i}") for i in range(9)]},
    "same conditions": {"conditions": [condition(), condition()]},
    "empty condition": {"conditions": [{}]},
    "status": {"conditions": [condition(status="Maybe")]},
    "type": {"conditions": [condition(type="a b")]},
    "reason": {"conditions": [condition(reason="not fine")]},
    "long reason": {"conditions": [condition(reason="r" * 1025)]},
    "long message": {"conditions": [condition(message="m" * 32769)]},
    "generation": {"conditions": [condition(observedGeneration=-1)]},
}
