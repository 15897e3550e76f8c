"""What objects of tenants cost to evaluate is spent in steps that namespaces share, whatever kind.

Counted are turns of namespaces, and function calls inside a step or a cycle; never seconds.
"""

import json
import sys
from collections import Counter

import pytest

from device_share.objects import a_device_object, a_gpu, a_gpu_node
from holdfast.api.koordinator_names import GPU
from holdfast.api.reservation_names import AFFINITY
from holdfast.api.scheme import PODS as PODS_KIND
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.plugins.node_numa_resource import allocator as numa_allocator
from holdfast.scheduling.plugins.pod_topology_spread import plugin as spreading
from holdfast.scheduling.plugins.pod_topology_spread.constraints import NO_CONSTRAINTS
from holdfast.scheduling.scheduler import preparation_turns
from holdfast.scheduling.scheduler import scheduler as scheduling
from holdfast.testing import (
    a_claim,
    a_claim_template,
    a_device,
    a_device_class,
    a_namespace,
    a_pod,
    a_reservation,
    a_slice,
)
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from scheduler.turns import between

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST, NODES, PODS = "kubernetes.io/hostname", 12, 160
TENANTS = ("hostile", "victim")
MOST_CALLS = 30_000
"""Of one step, or of one cycle. Each attack needs ten times as many for a pod."""
LOOP = f"{list(range(13))}"


def expensive(number):
    """A device selector that costs its whole budget on every device, each another one."""
    inner = f'{LOOP}.all(z, device.attributes["g.e"].i + x + y + z >= 0)'
    return f'{LOOP}.all(x, {LOOP}.all(y, {inner})) && device.attributes["g.e"].i < -{number}'


def selector(number, count=4):
    """A label selector that matches all pods, each another one; so every requirement is read."""
    excluded = [{"key": "id", "operator": "NotIn", "values": [f"x{number}-{i}"]}
                for i in range(count)]  # fmt: skip
    return {"matchExpressions": excluded}


def claiming(name, namespace, **claim):
    return a_pod(name, namespace=namespace, cpu="1m", claims=[{"name": "c", **claim}])


def of_claim(namespace, number):
    name = f"p{number}"
    claim = a_claim(name, namespace=namespace, selectors=[expensive(number)])
    return [claim, claiming(name, namespace, resourceClaimName=name)]


def of_class(namespace, number):
    name = f"{namespace}-{number}"
    listed = a_device_class(name, selectors=[expensive(number)])
    claim = a_claim(f"p{number}", namespace=namespace, device_class=name)
    return [listed, claim, claiming(f"p{number}", namespace, resourceClaimName=f"p{number}")]


def of_template(namespace, number):
    name = f"p{number}"
    template = a_claim_template(name, namespace=namespace, selectors=[expensive(number)])
    return [template, claiming(name, namespace, resourceClaimTemplateName=name)]


def of_pod_affinity(namespace, number):
    terms = [
        {"weight": 1, "podAffinityTerm": {
            "topologyKey": HOST, "labelSelector": selector(f"{number}-{i}"),
            "namespaces": ["hostile"]}}
        for i in range(40)
    ]  # fmt: skip
    affinity = {"podAffinity": {PREFERRED: terms}}
    return [a_pod(f"p{number}", namespace=namespace, cpu="1m", affinity=affinity)]


def of_required_affinity(namespace, number):
    """One counter of many selectors, for all terms together."""
    terms = [{"topologyKey": HOST, "labelSelector": selector(f"{number}-{i}"),
              "namespaces": ["hostile"]} for i in range(60)]  # fmt: skip
    affinity = {"podAffinity": {REQUIRED: terms}}
    return [a_pod(f"p{number}", namespace=namespace, cpu="1m", affinity=affinity)]


def of_spread(namespace, number):
    constraints = [
        {"maxSkew": 1000, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway",
         "labelSelector": selector(f"{number}-{i}", 2)}
        for i in range(80)
    ]  # fmt: skip
    pod = a_pod(
        f"p{number}", namespace=namespace, cpu="1m", topology_spread_constraints=constraints
    )
    return [pod]


def of_numa_hints(namespace, number):
    spec = {"numaTopologyPolicy": "SingleNUMANode"}
    return [
        a_bound_pod(
            f"p{number}", str(1 + number), namespace=namespace, memory=f"{number + 1}Mi",
            requests={GPU: "50"}, scheduler_name="koord-scheduler",
            annotations={"scheduling.koordinator.sh/numa-topology-spec": json.dumps(spec)},
        )
    ]  # fmt: skip


def of_reservations(namespace, number):
    terms = [
        {"matchExpressions": [
            *selector(f"{number}-{i}", 7)["matchExpressions"],
            {"key": "id", "operator": "In", "values": ["none"]}]}
        for i in range(30)
    ]  # fmt: skip
    wanted = {REQUIRED: {"reservationSelectorTerms": terms}}
    return [
        a_pod(
            f"p{number}", namespace=namespace, cpu="1m", labels={"app": "owner"},
            annotations={AFFINITY: json.dumps(wanted)},
        )
    ]  # fmt: skip


KINDS = {
    "selectors of claims": of_claim,
    "classes": of_class,
    "templates": of_template,
    "pod affinity": of_pod_affinity,
    "required pod affinity": of_required_affinity,
    "spread constraints": of_spread,
    "NUMA hints": of_numa_hints,
    "reservations": of_reservations,
}


def nodes():
    for i in range(NODES):
        name = f"n{i}"
        yield a_gpu_node(name, pods=900, labels={HOST: name})
        yield a_topology(name, numa_nodes=2, cores=8 + i, threads=2)  # no two nodes alike
        yield a_device_object(name, a_gpu(0, numa=0), a_gpu(1, numa=1))
        devices = [a_device(f"d{j}", attributes={"i": i * 4 + j + 1}) for j in range(4)]
        yield a_slice(f"s{i}", node=name, driver="g.e", devices=devices)


def others():
    """Pods of one tenant that are all different, and reservations that its pods own."""
    for i in range(PODS):
        yield a_pod(
            f"old-{i}", namespace="hostile", cpu="1m", node=f"n{i % NODES}", labels={"id": f"{i}"}
        )
    for i in range(PODS):
        yield a_reservation(
            f"r{i}", cpu="1m", owner_labels={"app": "owner"}, allocate_once=False,
            labels={"id": f"{i}"},
        )  # fmt: skip


@pytest.fixture
async def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduling, "Auditor", None)  # it decides again without caches
    async with Harness(tmp_path, profiles=default_profiles()) as harness:
        await harness.create(*map(a_namespace, TENANTS), a_device_class(), *nodes(), *others())
        yield harness


class Meter:
    """The turns of namespaces, and the function calls of steps and cycles."""

    def __init__(self, monkeypatch):
        self.turns, self.began, self.calls, self.most = [], {}, Counter(), Counter()
        monkeypatch.setattr(preparation_turns, "STEP_SECONDS", -1.0)  # each pause ends a step
        monkeypatch.setattr(numa_allocator, "_FEW", 1)
        step, cycle = preparation_turns.Preparations.step, scheduling.schedule_pod
        begin = preparation_turns.Preparations.begin

        def counted_step(preparations):
            self.turns.append(preparations.turns[0])
            return self._count("step", step, preparations)

        monkeypatch.setattr(preparation_turns.Preparations, "step", counted_step)
        monkeypatch.setattr(
            preparation_turns.Preparations,
            "begin",
            lambda *given: self._count("begin", begin, *given),
        )

        def counted_cycle(profile, view, *given):
            self.began.setdefault(view.pod.name, len(self.turns))
            return self._count("cycle", cycle, profile, view, *given)

        monkeypatch.setattr(scheduling, "schedule_pod", counted_cycle)

    def _count(self, what, function, *given):
        count = 0

        def note(_frame, event, _argument):
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            return function(*given)
        finally:
            sys.setprofile(None)
            self.calls[what] += count
            self.most[what] = max(self.most[what], count)


@pytest.mark.parametrize("objects", KINDS.values(), ids=KINDS)
async def test_namespaces_share_what_their_objects_cost(cluster, monkeypatch, objects):
    async with cluster.components_stopped():
        for number in range(6):
            await cluster.create(*objects("hostile", number), settle=False)
        await cluster.create(*objects("victim", 7), *objects("victim", 8), settle=False)
        for number in range(4):
            plain = a_pod(f"plain-{number}", cpu="1m", namespace="victim")
            await cluster.create(plain, settle=False)
        meter = Meter(monkeypatch)
    counts = Counter(meter.turns)
    assert [meter.began[f"plain-{number}"] for number in range(4)] == [0] * 4
    assert counts["hostile"] > 2 * counts["victim"] > 8
    assert max(found["hostile"] for found in between(meter.turns, "victim")) == 1
    assert max(meter.most.values()) < MOST_CALLS


async def test_events_of_other_namespaces_read_no_spread_constraints(cluster, monkeypatch):
    """Waiting pods with many constraints must not delay what happens elsewhere."""
    for number in range(5):
        pod = of_spread("hostile", number)[0]
        for constraint in pod["spec"]["topologySpreadConstraints"]:
            constraint |= {"topologyKey": "no-such-label", "whenUnsatisfiable": "DoNotSchedule"}
        await cluster.create(pod, settle=False)
    await cluster.settle()
    read = []
    monkeypatch.setattr(
        spreading, "own_constraints", lambda pod: read.append(pod.name) or NO_CONSTRAINTS
    )
    await cluster.create(a_pod("plain", namespace="victim", cpu="1m"))
    await cluster.delete(PODS_KIND, "plain", "victim")
    assert read == []
    await cluster.create(a_pod("plain", namespace="hostile", cpu="1m"))
    assert read
