"""Random pods and reservations that are costly to evaluate, and a record of the steps taken."""

import json
from collections import Counter
from random import Random

from device_share.objects import a_device_object, a_gpu
from holdfast.api import koordinator_names as names
from holdfast.api.cel.devices import CompiledSelector
from holdfast.scheduling.framework.plugin import Plugin, Reserver
from holdfast.scheduling.scheduler import preparation_turns
from holdfast.scheduling.scheduler.preparation_turns import Preparations
from holdfast.testing import (
    a_claim,
    a_claim_template,
    a_device,
    a_device_class,
    a_namespace,
    a_node,
    a_pod,
    a_priority_class,
    a_reservation,
    a_slice,
)
from holdfast.testing.numa_builders import a_bound_pod, a_topology

NODES, DEVICES, CLASSES = 4, 16, 4
TENANTS = ("hostile", "a", "b", "victim")
PLAIN = "plain"
STEP = 0.0025
HOST = "kubernetes.io/hostname"
_I = 'device.attributes["gpu.example.com"].i'
_LIST = str(list(range(6)))


def costly(number):
    """A selector that costs much on every device; it selects all, some or none of them."""
    inner = f"{_LIST}.all(z, {_I} + x + y + z >= 0)"
    return f"{_LIST}.all(x, {_LIST}.all(y, {inner})) && {_I} < {7 - number % 9} + {number} * 0"


def slice_of(node, first=0):
    """The slice of a node; the devices that claims were given stay."""
    devices = [a_device(f"d{d}", attributes={"i": d}) for d in range(DEVICES)]
    devices.append(a_device("last", attributes={"i": first}))
    return a_slice(f"{node}-s", node=node, devices=devices)


class TurnsWorld:
    """Makes objects of tenants at random, reproducible by the seed."""

    def __init__(self, seed):
        self.dice = Random(seed)
        self._made = 0

    def objects(self):
        """Nodes, namespaces and classes."""
        for i in range(NODES):
            name = f"n{i}"
            gpus = a_device_object(name, *(a_gpu(g, numa=g % 2) for g in range(4)))
            yield from (a_node(name, cpu="16", pods=300), a_topology(name), gpus, slice_of(name))
        for i in range(CLASSES):
            yield a_device_class(f"class-{i}", selectors=[costly(i)])
        yield from (a_device_class("gpu"), a_priority_class(), *map(a_namespace, TENANTS))

    def change(self):
        """A slice with other devices, or a class with another selector, to be stored anew."""
        self._made += 1
        if self.dice.random() < 0.5:
            return slice_of(f"n{self.dice.randrange(NODES)}", first=self._made)
        which = f"class-{self.dice.randrange(CLASSES)}"
        return a_device_class(which, selectors=[costly(self._made)])

    def plain(self):
        """A pod that needs no preparation."""
        self._made += 1
        return a_pod(f"plain-{self._made}", namespace="victim", cpu="1m", labels={PLAIN: "true"})

    def work(self):
        """Objects of one costly pod or reservation, most of them of the hostile tenant."""
        self._made += 1
        tenant = self.dice.choice((TENANTS[0],) * 4 + TENANTS[1:])
        kinds = (self._selector, self._of_class, self._template, self._affinity, self._spread,
                 self._cpus, self._gpus, self._reservation, self._preemptor)  # fmt: skip
        return self.dice.choice(kinds)(f"w{self._made}", {"namespace": tenant, "cpu": "1m"})

    def _selector(self, name, pod):
        claim = a_claim(name, namespace=pod["namespace"], selectors=[costly(self._made)],
                        count=self.dice.randint(1, 2))  # fmt: skip
        return [claim, self._claiming(name, pod, resourceClaimName=name)]

    def _of_class(self, name, pod):
        which = f"class-{self.dice.randrange(CLASSES)}"
        claim = a_claim(name, namespace=pod["namespace"], device_class=which)
        return [claim, self._claiming(name, pod, resourceClaimName=name)]

    def _template(self, name, pod):
        made = a_claim_template(name, namespace=pod["namespace"], selectors=[costly(self._made)])
        return [made, self._claiming(name, pod, resourceClaimTemplateName=name)]

    def _claiming(self, name, pod, **claim):
        return a_pod(name, claims=[{"name": "dev", **claim}], **pod)

    def _affinity(self, name, pod):
        term = {"topologyKey": HOST, "labelSelector": self._new_key()}
        kind = self.dice.choice(("podAffinity", "podAntiAffinity"))
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return [a_pod(name, affinity={kind: rule}, **pod)]

    def _spread(self, name, pod):
        action = self.dice.choice(("DoNotSchedule", "ScheduleAnyway"))
        rule = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": action,
                "labelSelector": self._new_key()}  # fmt: skip
        return [a_pod(name, topology_spread_constraints=[rule], **pod)]

    def _new_key(self):
        key = f"key-{self._made}"
        return {"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}

    def _cpus(self, name, pod):
        policy = self.dice.choice(("BestEffort", "Restricted", "SingleNUMANode"))
        notes = {names.NUMA_TOPOLOGY_SPEC: json.dumps({"numaTopologyPolicy": policy})}
        return [a_bound_pod(name, namespace=pod["namespace"], cpu=str(self.dice.randint(1, 4)),
                            annotations=notes)]  # fmt: skip

    def _gpus(self, name, pod):
        return [a_pod(name, requests={names.GPU: str(self.dice.choice((10, 30, 100, 200)))}, **pod)]

    def _reservation(self, name, pod):
        owner = {"object": {"namespace": pod["namespace"]}}
        percent = str(self.dice.choice((20, 100)))
        return [a_reservation(name, cpu="10m", owners=[owner], requests={names.GPU: percent},
                              allocate_once=self.dice.random() < 0.5)]  # fmt: skip

    def _preemptor(self, name, pod):
        return [a_pod(name, **pod | {"cpu": "15"}, priority_class_name="high")]


class Record:
    """Whose steps are taken, and which namespaces wait then.

    Each pause ends a step, and a step takes longer than the scheduler lets one take.
    """

    def __init__(self, monkeypatch, clock):
        self.steps = []
        self.evaluated = Counter()
        """Evaluations of costly selectors outside of steps, and the most in one step."""
        self._in_step = None
        monkeypatch.setattr(preparation_turns, "STEP_SECONDS", -1.0)
        take, matches = Preparations.step, CompiledSelector.matches

        def step(preparations):
            turn, self._in_step = preparations.turns[0], 0
            ended = take(preparations)
            self.evaluated["in a step"] = max(self.evaluated["in a step"], self._in_step)
            self._in_step = None
            clock.skip(STEP)
            self.steps.append((turn, frozenset(preparations.turns)))
            return ended

        def counted(selector, device):
            if self._in_step is None:
                self.evaluated["outside"] += 1
            else:
                self._in_step += 1
            return matches(selector, device)

        monkeypatch.setattr(Preparations, "step", step)
        monkeypatch.setattr(CompiledSelector, "matches", counted)

    def unfair_turns(self):
        """Describe where a namespace that waited had two steps of another before its own."""
        for name in sorted({turn for turn, _ in self.steps}):
            since = None
            for turn, waiting in self.steps:
                if name not in waiting:
                    since = None
                elif turn == name or since is None:
                    since = Counter()
                else:
                    since[turn] += 1
                    if since[turn] > 1:
                        yield f"{turn} has two steps, {name} waits"


class NotePlain(Reserver):
    def __init__(self, plugin):
        self.plugin = plugin

    def reserve(self, placement):
        self.plugin.note_reserved(placement.pod)

    def unreserve(self, placement):
        pass


class PlainPods(Plugin):
    """A plugin that notes how many steps were taken while plain pods were in the queue."""

    name = "PlainPods"
    plan_classes = (NotePlain,)

    def __init__(self, record):
        self.waited = {}
        self._record, self._queued_at = record, {}

    def pre_enqueue(self, pod, view):
        self._queued_at.setdefault(pod.name, len(self._record.steps))

    def pre_filter(self, pod, view):
        return NotePlain(self)

    def note_reserved(self, pod):
        if PLAIN in pod.labels:
            self.waited[pod.name] = len(self._record.steps) - self._queued_at[pod.name]
