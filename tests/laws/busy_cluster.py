"""A random cluster with start times, PDBs, nominated pods and owners, for preemption."""

import msgspec

from holdfast.api.reservation_names import ALLOCATED, PRIORITY
from holdfast.api.reservation_names import DISABLE_PREEMPTIBLE as PROTECTED
from holdfast.api.scheme import DISRUPTION_BUDGETS
from holdfast.testing import a_pod, a_reservation, typed
from holdfast.testing.builders import an_object
from holdfast.testing.random_cluster import RandomCluster
from holdfast.testing.random_neighbours import NAMESPACES, some_pod_affinity
from holdfast.testing.random_storage import some_volumes

NOW = 1.8e9
STARTS = [None, *(f"2026-01-01T00:00:0{i}Z" for i in range(4)), "2040-01-01T00:00:00Z"]


class BusyCluster(RandomCluster):
    """A random cluster with everything that preemption depends on."""

    def fill(self):
        """Add many pods, so that few resources are free."""
        for _ in range(12 * len(self.nodes)):
            self.add_pod()
            if self.random.random() < 0.5:
                self.start_pod()

    def step(self):
        more = [self.start_pod, self.change_budget, self.change_budget, self.nominate, self.own,
                self.protect_pod]  # fmt: skip
        if self.random.random() < 0.4:
            self.random.choice(more)()
        else:
            super().step()

    def start_pod(self):
        """Start a bound pod, which does not change its requests."""
        if self.pods:
            pod = self.pods[self._pick(self.pods)]
            # Rarely the start is in the future, as from a wrong clock.
            start = self.random.choice(STARTS[:5] * 4 + STARTS)
            status = msgspec.structs.replace(pod.status, start_time=start)
            self._set_pod(msgspec.structs.replace(pod, status=status))

    def protect_pod(self):
        """Protect a bound pod from preemption by reservations, or stop protecting it."""
        if self.pods:
            pod = self.pods[self._pick(self.pods)]
            labels = {
                **pod.metadata.labels,
                PROTECTED: self.random.choice(["true", "true", "false"]),
            }
            meta = msgspec.structs.replace(pod.metadata, labels=labels)
            self._set_pod(msgspec.structs.replace(pod, metadata=meta))

    def change_budget(self):
        """Add, change or remove a PodDisruptionBudget."""
        budgets = self.world.budgets
        if budgets and self.random.random() < 0.2:
            self.world.delete(budgets[self.random.choice(sorted(budgets))])
            return
        pick = self.random.choice
        selector = pick(
            [
                {}, {"matchLabels": {"app": pick("abc")}}, {"matchLabels": {"app": pick("abc")}},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
                {"matchExpressions": [{"key": "nobody", "operator": "DoesNotExist"}]},
            ]
        )  # fmt: skip
        made = an_object(
            DISRUPTION_BUDGETS, f"pdb{pick('xyz')}", {"selector": selector},
            namespace=pick(NAMESPACES),
        )  # fmt: skip
        spared = {pod.name: "t" for pod in self.pods.values() if self.random.random() < 0.1}
        status = {"disruptionsAllowed": pick([0, 0, 1, 2, 5])}
        if self.random.random() < 0.2:
            status["disruptedPods"] = spared
        self.world.upsert(typed(made | {"status": status}))

    def nominate(self):
        """Nominate a pod to a node, or clear its nomination."""
        if self.nodes:
            make = self.random.choice([self.a_waiting_pod, self.a_preemptor, self.a_preemptor])
            pod_info = self.world.pod_info(make())
            self.world.nominations.set(pod_info, self.random.choice([*self.nodes, "unknown"]))

    def nominate_pod(self, pod_info):
        """Nominate this pod to a node, as after its own preemption."""
        self.world.nominations.set(pod_info, self._pick(self.nodes))
        return pod_info

    def own(self):
        """Add a reservation, which pods on its node use."""
        if not self.nodes:
            return
        self._made += 1
        node, pick = self._pick(self.nodes), self.random.choice
        amounts = {"cpu": pick(["500m", "2"])} | ({"pods": "2"} if pick([0, 1]) else {})
        raw = a_reservation(
            f"r{self._made}", owner_labels={"app": pick("abc")}, allocate_once=pick([True, False]),
            allocate_policy=pick([None, "Aligned", "Restricted"]),
            status={"phase": "Available", "nodeName": node, "allocatable": amounts},
        )  # fmt: skip
        made = typed(raw)
        self.others[made.kind, made.name] = made
        self.world.upsert(made)
        taken = f'{{"name":"{made.name}","uid":"{made.uid}"}}'
        for pod in [p for p in self.pods.values() if p.spec.node_name == node]:
            if self.random.random() < 0.5:
                notes = {**pod.metadata.annotations, ALLOCATED: taken}
                meta = msgspec.structs.replace(pod.metadata, annotations=notes)
                self._set_pod(msgspec.structs.replace(pod, metadata=meta))

    def a_preempting_reservation(self):
        """Return a reservation of high priority without a node."""
        self._made += 1
        pick = self.random.choice
        made = a_reservation(
            f"r{self._made}", cpu=pick(["500m", "1", "2", "3"]), memory=pick([None, "3Gi"]),
            labels={PRIORITY: pick(["10", "500", "2000"])}, owner_labels={"app": pick("abc")},
            allocate_policy=pick([None, "Aligned"]),
            template={"tolerations": [{"operator": "Exists"}]},
        )  # fmt: skip
        return typed(made)

    def a_preemptor(self, odd=0.0):
        """Return a pod of high priority with large requests; ``odd`` is the probability of unusual
        fields."""
        self._made += 1
        pick = self.random.choice

        def chance():
            return self.random.random() - odd

        more = {"tolerations": [{"operator": "Exists"}], "priority": pick([10, 500, 2000, 2000])}
        if chance() < 0.25:
            more["topology_spread_constraints"] = self._constraints()
        if chance() < 0.4:
            more["affinity"] = some_pod_affinity(self.random)
        if chance() < 0.2:
            more["volumes"] = some_volumes(self.random)
        raw = a_pod(
            f"p{self._made}", cpu=pick([None, "500m", "1", "2", "3"]), memory=pick([None, "3Gi"]),
            labels={"app": pick("abc")}, namespace=pick(NAMESPACES),
            requests={"example.com/gpu": "1"} if chance() < 0.1 else {}, **more,
        )  # fmt: skip
        if chance() < 0.25:
            port = {"hostPort": pick([80, 443]), "containerPort": 80, "protocol": "TCP"}
            raw["spec"]["containers"][0]["ports"] = [port]
        return typed(raw)
