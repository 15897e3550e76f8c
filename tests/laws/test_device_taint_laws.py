"""No pod stays on a device with a NoExecute taint that it does not tolerate; no other is evicted.

Random taints, rules, pods and restarts; then the same with faults of the network. The reference
reads the API objects and knows nothing of the controller.
"""

import math
import random

import pytest

from holdfast.api.scheme import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.api.timestamps import parse_rfc3339, rfc3339
from holdfast.client.informer_set import InformerSet
from holdfast.runtime.errors import AlreadyExists, Conflict, NotFound
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.testing import (
    Chances,
    FaultyTransport,
    a_claim,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
    a_taint_rule,
)
from holdfast.testing.harness import Harness
from soak_size import SEED, TIMES

GATES = FeatureGates.parse("DRADeviceTaintRules=true")
FAULTS = Chances(
    conflict=0.03,
    unavailable=0.03,
    unavailable_after=0.03,
    lost=0.03,
    expired=0.03,
    cut=0.05,
    ended=0.05,
)
NODES, DEVICES, STEPS = 2, 3, 20
KEYS = ("example.com/a", "example.com/b")
EVERY = {"operator": "Exists"}
TOLERATIONS = (
    (),
    (),
    (EVERY,),
    (EVERY | {"effect": "NoExecute"},),
    *((EVERY | {"effect": "NoExecute", "tolerationSeconds": s},) for s in (0, 5, 30)),
    (
        {"key": KEYS[0], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20},
        {"key": KEYS[0], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 40},
    ),
    ({"key": KEYS[1], "operator": "Equal", "value": "x", "effect": "NoExecute"},),
    (EVERY | {"effect": "NoSchedule"},),
)


def tolerates(toleration, taint):
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def due(taint, tolerations):
    """Return when a pod has to leave because of a taint, or None."""
    seconds = [t.toleration_seconds for t in tolerations if tolerates(t, taint)]
    if None in seconds:
        return None
    return parse_rfc3339(taint.time_added) + max(min(seconds, default=0), 0)


class Reference:
    """The NoExecute taints that each device has had, with the times when they were removed."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._removed = {}

    async def look(self):
        """Note the taints of now."""
        now = self._cluster.clock.now()
        client = self._cluster.client
        slices = (await client.list(RESOURCE_SLICES)).items
        rules = (await client.list(DEVICE_TAINT_RULES)).items
        self.now = [
            ((s.spec.driver, s.spec.pool.name, d.name), taint)
            for s in slices
            for d in s.spec.devices
            for taint in (*d.taints, *(r.spec.taint for r in rules if self._selects(r, s, d)))
            if taint.effect == "NoExecute"
        ]
        known = set(self.now)
        self._removed = {t: min(end, now) for t, end in self._removed.items() if t not in known}
        self._removed |= dict.fromkeys(known, math.inf)

    def _selects(self, rule, slice_, device):
        chosen = rule.spec.device_selector
        return chosen is not None and (
            chosen.driver in (None, slice_.spec.driver)
            and chosen.pool in (None, slice_.spec.pool.name)
            and chosen.device in (None, device.name)
        )

    def must_leave(self, claim):
        """Return whether a taint makes the users of a claim leave by now."""
        now = self._cluster.clock.now()
        return any(when is not None and when <= now for when in self._times(claim, self.now))

    def might_leave(self, claim, time, slack):
        """Return whether a taint made them leave by a time, or had done so shortly before."""
        taints = [taint for taint, removed in self._removed.items() if removed >= time - slack]
        return any(when is not None and when <= time for when in self._times(claim, taints))

    def _times(self, claim, taints):
        for result in claim.status.allocation.devices.results:
            for device, taint in taints:
                if device == (result.driver, result.pool, result.device):
                    yield due(taint, result.tolerations)


class RandomEdits:
    """Random edits of taints, rules and pods."""

    def __init__(self, cluster, dice):
        self._cluster, self._dice = cluster, dice
        self._pods = 0
        self.deleted = set()

    async def one(self):
        dice, client = self._dice, self._cluster.client
        edit = dice.choice((self.add_pod,) * 5 + (self.taint,) * 4 + (self.rule, self.unrule) * 2)
        try:
            await edit()
            if dice.random() < 0.1:
                running = (await client.list(PODS)).items
                if running:
                    self.deleted.add(name := dice.choice(running).name)
                    await client.delete(PODS, name, "default")
        except (AlreadyExists, Conflict, NotFound):
            pass

    async def add_pods_without_tolerations(self):
        asked = {"example.com/gpu": "1"}
        for name in ("e1", "e2"):
            await self._cluster.create(a_pod(name, cpu="1m", requests=asked, limits=asked))

    async def rule_for_all(self):
        rule = a_taint_rule("all")
        rule["spec"] = {"taint": self._taint() | {"effect": "NoExecute"}, "deviceSelector": {}}
        await self._cluster.create(rule)

    async def add_pod(self):
        self._pods += 1
        name = f"p{self._pods}"
        exactly = {
            "deviceClassName": "gpu",
            "count": self._dice.choice((1, 1, 2)),
            "tolerations": list(self._dice.choice(TOLERATIONS)),
        }
        await self._cluster.create(
            a_claim(name, requests=[{"name": "r", "exactly": exactly}]),
            a_pod(name, cpu="1m", claims=[{"name": "gpu", "resourceClaimName": name}]),
            settle=False,
        )

    def _taint(self):
        dice = self._dice
        time = rfc3339(self._cluster.clock.now() - dice.choice((0, 0, 15)))
        taint = {"key": dice.choice(KEYS), "effect": dice.choice(("NoExecute",) * 4 + ("None",))}
        return taint | {"value": dice.choice(("", "x")), "timeAdded": time}

    async def taint(self):
        node = f"n{self._dice.randrange(NODES)}"
        devices = [a_device(f"gpu-{n}") for n in range(DEVICES)]
        for device in self._dice.sample(devices, self._dice.choice((0, 1, 1, 2))):
            device["taints"] = [self._taint()]
        await self._cluster.client.patch(RESOURCE_SLICES, node, {"spec": {"devices": devices}})

    async def rule(self):
        rule = a_taint_rule(f"r{self._dice.randrange(3)}")
        pool, device = f"n{self._dice.randrange(NODES)}", f"gpu-{self._dice.randrange(DEVICES)}"
        selectors = ({"pool": pool}, {"device": device}, {"pool": pool, "device": device}, None)
        rule["spec"] = {"taint": self._taint(), "deviceSelector": self._dice.choice(selectors)}
        await self._cluster.create(rule, settle=False)

    async def unrule(self):
        await self._cluster.client.delete(DEVICE_TAINT_RULES, f"r{self._dice.randrange(3)}")


class Evictions:
    """Watches which pods are deleted, and the claims that they had."""

    def __init__(self, cluster, edits):
        self._clock, self._edits = cluster.clock, edits
        self._claims = {}
        self.evicted = {}
        """The claim of each evicted pod, and the time."""
        self._informers = InformerSet(cluster.client, clock=cluster.clock)
        self._informers.get(RESOURCE_CLAIMS).add_handler(self._on_claim)
        self._informers.get(PODS).add_handler(self._on_pod)

    async def __aenter__(self):
        await self._informers.start()
        return self

    async def __aexit__(self, *_):
        await self._informers.stop()

    def _on_claim(self, kind, old, new):
        claim = new or old
        if claim.status.allocation is not None:
            for user in claim.status.reserved_for:
                self._claims[user.uid] = claim

    def _on_pod(self, kind, old, new):
        pod = new or old
        known = pod.name in self._edits.deleted or pod.uid in self.evicted
        if known or (new is not None and not new.terminating):
            return
        self.evicted[pod.uid] = (self._claims.get(pod.uid), self._clock.now())

    def wrong(self, reference, slack):
        """Return the claims of pods that were evicted without a reason."""
        found = self.evicted.values()
        return [c for c, time in found if c is None or not reference.might_leave(c, time, slack)]


async def staying(cluster):
    """Return the pods that stay and their allocated claims."""
    claims = (await cluster.client.list(RESOURCE_CLAIMS)).items
    reserved = {u.uid: c for c in claims for u in c.status.reserved_for if c.status.allocation}
    pods = (await cluster.client.list(PODS)).items
    return [(p.name, reserved[p.uid]) for p in pods if p.uid in reserved and not p.terminating]


async def check(cluster, reference):
    await reference.look()
    stay = await staying(cluster)
    assert [name for name, claim in stay if reference.must_leave(claim)] == []


@pytest.mark.parametrize("seed", [SEED + n for n in range(TIMES)])
@pytest.mark.parametrize("faults", [False, True])
async def test_exactly_the_pods_with_untolerated_taints_leave(tmp_path, seed, faults):
    dice, faulty = random.Random(seed), []

    def with_faults(transport, clock):
        one = FaultyTransport(
            transport,
            chances=FAULTS,
            rng=random.Random(dice.random()),
            clock=clock,
            enabled=False,
        )
        faulty.append(one)
        return one

    async with Harness(
        tmp_path / "s", feature_gates=GATES, wrap=with_faults if faults else None
    ) as cluster:
        nodes = [f"n{n}" for n in range(NODES)]
        await cluster.create(
            a_device_class("gpu", extended_resource_name="example.com/gpu"),
            *map(a_node, nodes),
            *(a_slice(n, node=n, devices=DEVICES) for n in nodes),
        )
        reference, edits = Reference(cluster), RandomEdits(cluster, dice)
        async with Evictions(cluster, edits) as evictions:
            await edits.add_pods_without_tolerations()
            for step in range(STEPS):
                for each in faulty:
                    each.enabled = faults
                await edits.one()
                await reference.look()
                await cluster.advance(dice.choice((0, 1, 4, 15)))
                if step % 10 == 9:
                    for each in faulty:
                        each.enabled = False
                    await cluster.restart_components()
                if not faults:
                    await cluster.settle()
                    await check(cluster, reference)
                    assert evictions.wrong(reference, slack=0) == []
            for each in faulty:
                each.enabled = False
            await edits.rule_for_all()
            await cluster.advance(400)
            await check(cluster, reference)
            assert evictions.wrong(reference, slack=400 if faults else 0) == []
        assert evictions.evicted, "the case shows nothing"
