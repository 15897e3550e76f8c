"""Random attacks of a tenant on what the pods of another have; both are set up as the docs say."""

import json
from contextlib import contextmanager
from pathlib import Path
from random import Random

import yaml

from device_share.objects import a_device_object, a_gpu
from holdfast.api.allocation_keys import ALLOCATION_ANNOTATIONS, recorded_allocations
from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    GPU,
    OPERATING_MODE,
    QOS_CLASS,
    RESERVATION_OWNERS,
    RESOURCE_STATUS,
)
from holdfast.api.reservation_names import ALLOCATED, DRAWS, IGNORED, PRE_ALLOCATABLE
from holdfast.api.resource import Resource
from holdfast.api.scheme import DEPLOYMENTS, POD_MIGRATION_JOBS, PODS
from holdfast.client.client import Client
from holdfast.runtime.errors import Conflict, Refused
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.user import AUTHENTICATED, User
from holdfast.testing import a_deployment, a_node, a_pod
from holdfast.testing.builders import an_object
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from laws.cluster_identities import audit

EXAMPLE = Path(__file__).parents[2] / "examples" / "74-tenants"
MINE, OTHERS = "team-a", "team-b"
OWNER = {"app": "web"}
"""Labels of the owners of the reservation; the tenant's pods have them too."""
SMALL = {"cpu": "1m", "memory": "1Mi"}
"""The quotas of the recipe ask for both."""


def recipe(team):
    """Return the objects of the recipe of docs/security.md for a team."""
    texts = [(EXAMPLE / name).read_text() for name in ("tenant.yaml", "reservation.yaml")]
    return [obj for text in texts for obj in yaml.safe_load_all(text.replace("team-a", team))]


def client_of(cluster, team):
    """Return the client of a user of a team."""
    user = User(f"user of {team}", (team, AUTHENTICATED))
    return Client(InProcessTransport(cluster.server, user), team)


async def apply_recipe(cluster, team):
    for obj in recipe(team):
        group, _, version = obj["apiVersion"].rpartition("/")
        namespace = obj["metadata"].get("namespace", "")
        plural = f"{obj['kind'].lower()}s"
        resource = Resource(group, version, plural, obj["kind"], dict, namespaced=bool(namespace))
        await cluster.client.create(resource, obj, namespace)


class Tenant:
    """A user with edit in team-a; each step is one attack, which may be refused."""

    def __init__(self, cluster, seed):
        self.cluster, self.dice = cluster, Random(seed)
        self.log, self.refused = [], 0
        self._given = {}
        self._made = 0

    async def begin(self):
        devices = a_device_object("n", *map(a_gpu, range(4)))
        await self.cluster.create(a_topology("n"), devices, a_node("n", cpu="16"))
        for team in (MINE, OTHERS):
            await apply_recipe(self.cluster, team)
        self.client = client_of(self.cluster, MINE)
        self.others = client_of(self.cluster, OTHERS)
        pods = (a_bound_pod("cpus", "2", memory="1Mi", namespace=OTHERS),
                a_pod("gpu", namespace=OTHERS, **SMALL, requests={GPU: "100"}))  # fmt: skip
        for pod in pods:
            await self.others.create(PODS, pod, OTHERS)
        await self.cluster.settle()

    def attacks(self):
        """What the tenant tries, some more often."""
        return (self._create, self._create, self._patch, self._patch, self._replace, self._status,
                self._bind, self._deploy, self._migrate, self._delete, self._restart)  # fmt: skip

    async def attack(self, steps):
        """Take steps, each followed by an audit of the cluster."""
        with self.shown_in_failures():
            await self.begin()
            for _ in range(steps):
                await self.step()
                await audit(self.cluster)
            await self.finish()
            await audit(self.cluster)

    @contextmanager
    def shown_in_failures(self):
        """Add the steps to a failure inside the block."""
        try:
            yield
        except AssertionError as broken:
            broken.add_note("\n".join(self.log))
            raise

    async def step(self):
        attack = self.dice.choice(self.attacks())
        try:
            await attack()
        except (Conflict, Refused) as refusal:
            self.refused += 1
            self.log.append(f"{attack.__name__}: {refusal}")
        else:
            self.log.append(attack.__name__)
        await self.cluster.settle()
        await self.check()

    async def check(self):
        """The tenant's pods have what the scheduler gave them, others have not less than before."""
        for pod in (await self.cluster.client.list(PODS)).items:
            if not pod.spec.node_name:
                continue
            has = recorded_allocations(pod.metadata.annotations)
            assert self._given.setdefault(pod.uid, has) == has, f"{pod.name} changed what it has"
            labels = pod.metadata.labels
            assert pod.namespace != MINE or labels.get(IGNORED) != "true", pod.name
            if pod.namespace == MINE and not (
                labels.get(QOS_CLASS) or "gpu" in pod.name or self.may_have(pod, has)
            ):
                assert not has, f"{pod.name} has {has}"
        held = await self.cluster.reservation(OTHERS)
        assert held.phase == "Available"
        assert not held.status.current_owners
        assert {c.type: c.status for c in held.status.conditions}["Ready"] == "True"

    def may_have(self, pod, _recorded):
        """Tell whether a pod of the tenant may have what is recorded."""
        return pod.metadata.labels.get("app") == "web"

    async def finish(self):
        """The other team still gets its own."""
        owner = a_pod("owner", namespace=OTHERS, cpu="4", memory="1Mi", labels=OWNER)
        await self.others.create(PODS, owner, OTHERS)
        await self.cluster.advance(1)
        pod = await self.cluster.pod("owner", OTHERS)
        assert json.loads(pod.metadata.annotations[ALLOCATED])["name"] == OTHERS

    # --- attacks ------------------------------------------------------------------------------

    async def _create(self):
        self._made += 1
        name, roll = f"p{self._made}", self.dice.random
        common = {"namespace": MINE, "annotations": self._notes() if roll() < 0.7 else {},
                  "labels": self._labels()}  # fmt: skip
        kind = self.dice.choice(("plain", "cpus", "gpu", "bound", "acting"))
        if kind == "cpus":
            pod = a_bound_pod(name, "1", memory="1Mi", **common)
        elif kind == "gpu":
            pod = a_pod(f"gpu{name}", **SMALL, requests={GPU: "10"}, **common)
        elif kind == "acting":
            common["labels"] |= {OPERATING_MODE: "Reservation"}
            common["annotations"] |= {RESERVATION_OWNERS: '[{"object":{}}]'}
            pod = a_pod(name, **SMALL, **common)
        else:
            pod = a_pod(name, **SMALL, node="n" if kind == "bound" else None, **common)
        await self.client.create(PODS, pod, MINE)

    async def _patch(self):
        key = self.dice.choice(ALLOCATION_ANNOTATIONS)
        text = self.dice.choice((None, "", *(await self._forged()).values()))
        meta = {"annotations": {key: text}}
        if self.dice.random() < 0.2:
            meta = {"labels": {IGNORED: "true"}}
        await self.client.patch(PODS, await self._mine(), {"metadata": meta}, MINE)

    async def _replace(self):
        path = PODS.path(MINE, await self._mine())
        pod = json.loads(await self.client.raw(path))
        pod["metadata"]["annotations"] = await self._forged() if self.dice.random() < 0.5 else {}
        await self.client.update(PODS, pod)

    async def _status(self):
        change = {"metadata": {"annotations": await self._forged()}}
        await self.client.patch(PODS, await self._mine(), change, MINE, subresource="status")

    async def _bind(self):
        name = await self._mine()
        meta = {"name": name, "annotations": await self._forged()}
        await self.client.bind(MINE, name, {"metadata": meta, "target": {"name": "n"}})

    async def _deploy(self):
        self._made += 1
        body = a_deployment(f"d{self._made}", namespace=MINE, **SMALL, labels=self._labels(),
                            annotations=self._notes())  # fmt: skip
        await self.client.create(DEPLOYMENTS, body, MINE)

    async def _migrate(self):
        template = {"spec": {"owners": [{"object": {}}], "template": {"spec": {}}}}
        spec = {"podRef": {"namespace": MINE, "name": await self._mine()},
                "reservationOptions": {"template": template}}  # fmt: skip
        await self.client.create(POD_MIGRATION_JOBS, an_object(POD_MIGRATION_JOBS, "j", spec))

    async def _delete(self):
        await self.client.delete(PODS, await self._mine(), MINE)

    async def _restart(self):
        await self.cluster.restart_components()

    # --- what it forges -----------------------------------------------------------------------

    async def _mine(self):
        pods = (await self.client.list(PODS, MINE)).items
        return self.dice.choice(sorted(p.name for p in pods)) if pods else "none"

    def _labels(self):
        some = ({}, {}, {PRE_ALLOCATABLE: "true"}, {IGNORED: "true"})
        return dict(self.dice.choice(some))

    def _notes(self):
        return {key: "{}" for key in ALLOCATION_ANNOTATIONS if self.dice.random() < 0.3} | dict(
            self.dice.choice(list(self._forgeries("forged").items())) for _ in range(2)
        )

    async def _forged(self):
        return self._forgeries((await self.cluster.reservation(OTHERS)).uid)

    @staticmethod
    def _forgeries(uid):
        whole = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
        gpus = {"gpu": [{"minor": minor, "resources": whole} for minor in range(4)]}
        return {
            RESOURCE_STATUS: json.dumps({"cpuset": "0-15"}),
            DEVICE_ALLOCATED: json.dumps(gpus),
            ALLOCATED: json.dumps({"name": OTHERS, "uid": uid}),
            DRAWS: json.dumps([{"name": OTHERS, "uid": uid, "resources": {"cpu": "4"}}]),
        }
