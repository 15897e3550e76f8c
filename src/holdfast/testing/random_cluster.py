"""A cluster with random events, including removals, reproducible by its seed.

It stores the objects like an API server and applies every event to a world. ``rebuilt`` creates a
new world from the objects, in any order: plugins and columns must give the same results in both.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from holdfast.api import reservation_names as names
from holdfast.api.decode import JsonObject
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.resource_policy import NEXT_UNITS_POLICIES
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing.builders import (
    a_node,
    a_pod,
    a_reservation,
    a_resource_policy,
    a_unit,
    typed,
)
from holdfast.testing.random_neighbours import (
    HOST,
    IMAGES,
    NAMESPACES,
    ZONE,
    some_images,
    some_namespace,
    some_owner,
    some_pod_affinity,
    some_workload,
)
from holdfast.testing.random_storage import some_storage, some_volumes

_TAINTS = (
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoExecute"},
    {"key": "slow", "value": "", "effect": "PreferNoSchedule"},
    {"key": "old", "value": "yes", "effect": "PreferNoSchedule"},
)
_TOLERATIONS = (
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
    {"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"},
    {"operator": "Exists"},
)


class RandomCluster:
    """The objects, a world that has them, and random events."""

    def __init__(self, random: Random, nodes: int = 8) -> None:
        self.random = random
        self.world = World()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.assumed: dict[str, tuple[PodInfo, str]] = {}
        self.others: dict[tuple[str, str], Any] = {}
        self.furniture: dict[tuple[str, str], Any] = {}
        """Namespaces, Services and ReplicaSets, by kind and key."""
        self.classic: dict[tuple[str, str], Any] = {}
        """Objects of classic DRA, by kind and key, once there are pods that need them."""
        self.more_events: list[Callable[[RandomCluster], None]] = []
        """Each is applied after every step."""
        self._made = 0
        self._zoned = random.choice([0.5, 0.9, 1.0])
        """The probability that a node is in a zone."""
        for _ in range(nodes):
            self.add_node()
            for _ in range(4):
                self.add_storage()

    def step(self) -> None:
        """Apply one random event."""
        events: list[Callable[[], None]] = [
            self.add_pod, self.add_pod, self.add_pod, self.remove_pod, self.change_pod,
            self.assume, self.confirm, self.forget, self.change_node, self.add_node,
            self.remove_node, self.add_other, self.remove_other, self.change_furniture,
            self.add_storage, self.add_storage, self.add_storage,
        ]  # fmt: skip
        self.random.choice(events)()
        for event in self.more_events:
            event(self)

    def a_waiting_pod(self) -> Pod:
        """Return a random pod without a node; it may have anything that a plugin reads."""
        return self._pod(node=None)

    def a_raw_pod(self) -> JsonObject:
        """Return such a pod as it is stored."""
        return self._raw_pod(node=None)

    def rebuilt(self, *, shuffled: bool = False) -> World:
        """Return a new world with all objects."""
        objects: list[Any] = [
            *self.nodes.values(), *self.pods.values(), *self.others.values(),
            *self.furniture.values(), *self.classic.values(),
        ]  # fmt: skip
        for pod_info, node in self.assumed.values():
            spec = msgspec.structs.replace(pod_info.pod.spec, node_name=node)
            objects.append(msgspec.structs.replace(pod_info.pod, spec=spec))
        if shuffled:
            self.random.shuffle(objects)
        world = World()
        for obj in objects:
            world.upsert(obj)
        return world

    def next_number(self) -> int:
        """Return a number that no object of the cluster has yet."""
        self._made += 1
        return self._made

    # --- events

    def add_node(self) -> None:
        """Add a node, possibly under the name of a removed one."""
        self._made += 1
        gone = [f"n{i}" for i in range(1, self._made) if f"n{i}" not in self.nodes]
        name = self.random.choice(gone) if gone and self.random.random() < 0.5 else f"n{self._made}"
        self._set_node(self._node(name))

    def change_node(self) -> None:
        """Change a node's labels, taints, flags or size."""
        if self.nodes:
            self._set_node(self._node(self._pick(self.nodes)))

    def remove_node(self) -> None:
        """Remove a node, but not its pods."""
        if len(self.nodes) > 2:
            self.world.delete(self.nodes.pop(self._pick(self.nodes)))

    def add_pod(self) -> None:
        """Add a bound pod, possibly on an unknown node."""
        there = [*self.nodes, "unknown"]
        self._set_pod(self._pod(node=self.random.choice(there)))

    def change_pod(self) -> None:
        """Change the labels of a bound pod, or let it terminate.

        A pod that was allocated from a reservation keeps its labels: no controller writes it to
        ``status.currentOwners`` here, so a new world would not accept it as an owner.
        """
        if not self.pods:
            return
        pod = self.pods[self._pick(self.pods)]
        labels = {"app": self.random.choice("abc")}
        if names.ALLOCATED in pod.metadata.annotations:
            labels = pod.metadata.labels
        going = "2026-01-01T00:00:00Z" if self.random.random() < 0.5 else None
        meta = msgspec.structs.replace(pod.metadata, labels=labels, deletion_timestamp=going)
        self._set_pod(msgspec.structs.replace(pod, metadata=meta))

    def remove_pod(self) -> None:
        """Remove a bound pod."""
        if self.pods:
            self.world.delete(self.pods.pop(self._pick(self.pods)))

    def assume(self) -> None:
        """Assume a pod."""
        if self.nodes:
            node = self._pick(self.nodes)
            pod_info = self.world.pod_info(self._pod(node=None))
            self.world.assume(pod_info, self.world.nodes.row_of[node])
            self.assumed[pod_info.uid] = (pod_info, node)

    def confirm(self) -> None:
        """Bind an assumed pod."""
        if self.assumed:
            pod_info, node = self.assumed.pop(self._pick(self.assumed))
            spec = msgspec.structs.replace(pod_info.pod.spec, node_name=node)
            self._set_pod(msgspec.structs.replace(pod_info.pod, spec=spec))

    def forget(self) -> None:
        """Forget an assumed pod."""
        if self.assumed:
            uid = self._pick(self.assumed)
            del self.assumed[uid]
            self.world.forget(uid)

    def add_other(self) -> None:
        """Add or change an available reservation, or a resource policy."""
        self._made += 1
        if self.random.random() < 0.5 and self.nodes:
            made = typed(self._reservation(f"r{self._made % 7}", self._pick(self.nodes)))
        else:
            made = typed(self._policy(self.random.choice("abc")))
        self.others[made.kind, made.name] = made
        self.world.upsert(made)

    def add_storage(self) -> None:
        """Add or change a volume, a claim or an object that limits them."""
        made: Any = some_storage(self.random, [*self.nodes, "unknown"])
        self.others[made.kind, made.name] = made
        self.world.upsert(made)

    def remove_other(self) -> None:
        """Remove a reservation, a policy or a storage object."""
        if self.others:
            key = self.random.choice(sorted(self.others))
            self.world.delete(self.others.pop(key))

    def change_furniture(self) -> None:
        """Add, change or remove a namespace or a workload."""
        if self.furniture and self.random.random() < 0.3:
            self.world.delete(self.furniture.pop(self.random.choice(sorted(self.furniture))))
            return
        make = self.random.choice([some_namespace, some_workload])
        made = make(self.random)
        self.furniture[made.kind, made.key] = made
        self.world.upsert(made)

    # --- objects

    def _policy(self, app: str) -> JsonObject:
        """Return a resource policy with caps; some nodes are in both units, some in none."""
        pick = self.random.choice
        units = [
            a_unit("first", 2, nodes={ZONE: "a"}, max_count=pick([0, 1, 2, 3, None])),
            a_unit("second", pick([1, 2, 3]), nodes={ZONE: pick("ab")}),
        ]
        if self.random.random() < 0.3:
            units[pick([0, 1])]["maxResources"] = pick([{"cpu": "2"}, {"memory": "4Gi"}])
        policy = a_resource_policy(f"policy-{app}", pods={"app": app}, units=units)
        policy["spec"] |= {
            "strategy": pick(["prefer", "required"]),
            "matchPolicy": {"ignoreTerminatingPod": pick([True, False])},
            "matchLabelKeys": pick([[], [], ["own"]]),
            "whenTryNextUnits": {"policy": pick(NEXT_UNITS_POLICIES)},
            "preemptPolicy": pick(["AfterAllUnits", "AfterAllUnits", "BeforeNextUnit"]),
        }
        return policy

    def _node(self, name: str) -> Node:
        pick = self.random.choice
        labels = {HOST: name}
        if self.random.random() < self._zoned:
            labels[ZONE] = pick("abc")
        if self.random.random() < 0.5:
            labels["size"] = pick(["1", "5", "10", "big"])
        taints = [t for t in _TAINTS if self.random.random() < 0.15]
        raw = a_node(
            name, cpu=pick(["0", "2", "4", "8"]), memory=pick(["0", "4Gi", "16Gi"]),
            pods=pick(["2", "5", "110"]), labels=labels, taints=taints,
            unschedulable=True if self.random.random() < 0.1 else None,
            allocatable={"example.com/gpu": pick(["0", "2"])},
        )  # fmt: skip
        raw["status"]["images"] = some_images(self.random)
        made: Node = typed(raw)
        return made

    def _reservation(self, name: str, node: str) -> dict[str, Any]:
        """Return an available reservation on a node, with a random pod template."""
        pick = self.random.choice
        status = {
            "phase": "Available", "nodeName": node,
            "allocatable": {"cpu": pick(["500m", "2"])} | pick([{}, {"memory": "1Gi"}]),
        }  # fmt: skip
        raw = a_reservation(
            name, owner_labels={"app": pick("abc")}, status=status, labels={"app": pick("abc")},
            allocate_once=pick([True, False]), allocate_policy=pick([None, None, "Aligned"]),
            taints=[dict(_TAINTS[0])] if self.random.random() < 0.2 else None,
        )  # fmt: skip
        template = self._raw_pod(node=None)
        raw["spec"]["template"] = {
            "metadata": {"namespace": template["metadata"]["namespace"]}, "spec": template["spec"],
        }  # fmt: skip
        return raw

    def _pod(self, node: str | None) -> Pod:
        raw = self._raw_pod(node)
        if node is not None and self.random.random() < 0.3:
            raw["metadata"]["annotations"] = self._allocated_on(node)
        made: Pod = typed(raw)
        return made

    def _raw_pod(self, node: str | None) -> dict[str, Any]:
        self._made += 1
        pick, chance = self.random.choice, self.random.random
        more: dict[str, Any] = {"priority": pick([0, 0, 10, 1000])}
        if chance() < 0.3:
            more["tolerations"] = [dict(pick(_TOLERATIONS))]
        if chance() < 0.3:
            more["topology_spread_constraints"] = self._constraints()
        affinity: dict[str, Any] = {}
        if chance() < 0.3:
            affinity["nodeAffinity"] = self._affinity()
        if chance() < 0.4:
            affinity |= some_pod_affinity(self.random)
        if affinity:
            more["affinity"] = affinity
        if chance() < 0.3:
            more["metadata"] = {"ownerReferences": some_owner(self.random)}
        if chance() < 0.1:
            more["node_selector"] = {ZONE: pick("abc")}
        if chance() < 0.3:
            more["volumes"] = some_volumes(self.random)
        requests = {"example.com/gpu": "1"} if chance() < 0.1 else {}
        raw = a_pod(
            f"p{self._made}", cpu=pick([None, "100m", "500m", "1"]),
            memory=pick([None, "128Mi", "1Gi"]), requests=requests, node=node,
            labels={"app": pick("abc"), "own": str(self._made)}, namespace=pick(NAMESPACES),
            image=pick(IMAGES)[0], **more,
        )  # fmt: skip
        if chance() < 0.2:
            port = {"hostPort": pick([80, 443]), "containerPort": 80, "protocol": "TCP"}
            port["hostIP"] = pick(["", "10.0.0.1", "10.0.0.2"])
            raw["spec"]["containers"][0]["ports"] = [port]
        return raw

    def _allocated_on(self, node: str) -> dict[str, str]:
        """Return annotations of a pod that uses a reservation on its node, if there is one."""
        there = [
            obj
            for key, obj in sorted(self.others.items())
            if key[0] == "Reservation" and obj.status.node_name == node
        ]
        if not there:
            return {}
        drawn = {"name": there[0].name, "uid": there[0].uid}
        return {names.ALLOCATED: msgspec.json.encode(drawn).decode()}

    def _constraints(self) -> list[dict[str, Any]]:
        keys = self.random.choice([[ZONE], [HOST], [ZONE, HOST]])
        action = self.random.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"])
        return [self._constraint(key, action) for key in keys]

    def _constraint(self, key: str, action: str) -> dict[str, Any]:
        pick = self.random.choice
        made: dict[str, Any] = {
            "maxSkew": pick([1, 2]), "topologyKey": key, "whenUnsatisfiable": action,
            "labelSelector": {"matchLabels": {"app": pick("abc")}},
        }  # fmt: skip
        if self.random.random() < 0.3:
            made |= {"nodeTaintsPolicy": "Honor", "minDomains": 2}
        return made

    def _affinity(self) -> dict[str, Any]:
        pick = self.random.choice
        expression = pick(
            [
                {"key": ZONE, "operator": "In", "values": ["a", "b"]},
                {"key": ZONE, "operator": "NotIn", "values": ["a"]},
                {"key": "size", "operator": "Gt", "values": ["4"]},
                {"key": "size", "operator": "DoesNotExist"},
            ]
        )
        term = {"matchExpressions": [expression]}
        if self.random.random() < 0.2:
            names = [self.random.choice([*self.nodes, "nobody"])]
            field = {"key": "metadata.name", "operator": "In", "values": names}
            term = {"matchFields": [field]}
        wish = {"weight": pick([1, 20, 80]), "preference": {"matchExpressions": [expression]}}
        made: dict[str, Any] = {}
        if self.random.random() < 0.6:
            made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
        made["preferredDuringSchedulingIgnoredDuringExecution"] = [wish]
        return made

    def _pick(self, table: dict[str, Any]) -> str:
        return self.random.choice(sorted(table))

    def _set_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.world.upsert(node)

    def _set_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.world.upsert(pod)
