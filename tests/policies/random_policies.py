"""Random clusters whose policies use every field, for the conformance suite and for laws."""

import msgspec

from holdfast.api.resource_policy import NEXT_UNITS_POLICIES
from holdfast.testing import a_resource_policy, a_unit, typed
from holdfast.testing.random_cluster import ZONE, RandomCluster

CREATED = "1970-01-01T00:00:30Z"
"""When policies were created; pods on nodes have started before or after."""
_STARTS = (None, "1970-01-01T00:00:10Z", CREATED, "1970-01-01T00:00:50Z")
_NODES = (
    {"matchLabels": {ZONE: "a"}},
    {"matchLabels": {ZONE: "b"}},
    {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]},
    {"matchExpressions": [{"key": "size", "operator": "Exists"}]},
    {},
)


class PolicyCluster(RandomCluster):
    """A random cluster with many policies; few pods are selected by two of them."""

    def step(self):
        """Apply one random event, often one that changes what is counted."""
        if self.random.random() < 0.5:
            super().step()
        else:
            self.random.choice([self.change_pod, self.change_pod, self.add_pod, self.add_other])()

    def add_other(self):
        if self.random.random() < 0.2:
            super().add_other()
            return
        made = a_random_policy(self.random)
        self.others[made.kind, made.name] = made
        self.world.upsert(made)

    def change_pod(self):
        """Also change requests and the start time, which the status of a pod has."""
        if self.random.random() < 0.5 or not self.pods:
            super().change_pod()
            return
        pod = self.pods[self._pick(self.pods)]
        status = msgspec.structs.replace(pod.status, start_time=self.random.choice(_STARTS))
        spec = msgspec.structs.replace(
            self._pod(node=pod.spec.node_name).spec, priority=pod.spec.priority
        )
        if self.random.random() < 0.5:
            pod = msgspec.structs.replace(pod, spec=spec)
        self._set_pod(msgspec.structs.replace(pod, status=status))

    def _raw_pod(self, node):
        raw = super()._raw_pod(node)
        if self.random.random() < 0.7:
            raw["metadata"]["namespace"] = "default"
        raw["metadata"]["labels"]["version"] = self.random.choice("12")
        if self.random.random() < 0.2:
            del raw["metadata"]["labels"]["version"]
        if node is not None:
            raw["status"] = {"startTime": self.random.choice(_STARTS)}
        elif self.random.random() < 0.5:
            # They wait: the conformance suite filters at time 0.
            raw["metadata"]["creationTimestamp"] = CREATED
        return raw


def a_random_policy(random):
    """Return a policy for one app; a later one of the same name replaces it."""
    pick = random.choice
    app = pick("abc")
    policy = a_resource_policy(
        f"policy-{app}",
        namespace="default",
        pods={"app": app},
        strategy=pick(["prefer", None]),
        units=[_unit(random, i) for i in range(random.randint(1, 4))],
        match_label_keys=pick([[], [], ["version"], ["version", "absent"]]),
        match_policy={
            "ignoreTerminatingPod": pick([True, False]),
            "ignorePreviousPod": pick([True, False]),
        },
        when_try_next_units={
            "policy": pick(NEXT_UNITS_POLICIES),
            "timeout": pick(["7s", "1m", "0s"]),
        },
        preempt_policy=pick(["AfterAllUnits", "BeforeNextUnit"]),
    )
    policy["metadata"]["creationTimestamp"] = CREATED
    return typed(policy)


def _unit(random, index):
    pick = random.choice
    unit = a_unit(
        pick([f"u{index}", ""]),
        pick([0, 1, 1, 5]),
        max_count=pick([None, 0, 1, 2, 3]),
        max_resources=pick(
            [
                {},
                {},
                {"cpu": "1500m"},
                {"memory": "1Gi", "example.com/gpu": 1},
                {"pods": 2, "cpu": 1},
            ]
        ),
    )
    return unit | {"nodeSelector": pick(_NODES)}


def selected(cluster):
    """Return a pod that policies may select: in the namespace default."""
    while True:
        pod = cluster.a_waiting_pod()
        if pod.namespace == "default":
            return pod
