"""Random attacks on reserved room, on quotas and on caps: by templates, owners, jobs and names."""

import json
from collections import Counter

from holdfast.api.koordinator_names import GPU, GPU_CORE, GPU_MEMORY_RATIO
from holdfast.api.quantity import milli, units
from holdfast.api.requests import pod_request
from holdfast.api.reservation_names import AFFINITY, ALLOCATED, IGNORED, OWNER_NAMESPACES
from holdfast.api.resource import Resource
from holdfast.api.scheme import (
    DEPLOYMENTS,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    RESOURCE_CLAIMS,
)
from holdfast.testing import (
    a_claim,
    a_deployment,
    a_device_class,
    a_node,
    a_pod,
    a_reservation,
    a_resource_policy,
    a_slice,
    a_unit,
)
from holdfast.testing.builders import an_object
from laws.tenant_steps import MINE, OTHERS, SMALL, Tenant

BATCH, CAPPED = {"app": "batch"}, {"app": "capped"}
ROOMS = {"limited": OTHERS, "malformed": f"{MINE}, no name!", "by-pod": OTHERS}
"""Reservations with owners by labels or by pod, and the namespaces that they are limited to."""
DEVICE, IMPLICIT = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"
WHOLE_GPU = "nvidia.com/gpu"
CAP, GPU_CORES = 1, 200
HOST = "kubernetes.io/hostname"
LARGEST = 10
"""Millicores of the largest pod that is migrated."""
RBAC = "rbac.authorization.k8s.io"
WORKLOADS = {
    "Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "DaemonSet": "apps",
    "Job": "batch", "CronJob": "batch", "ReplicationController": "",
}  # fmt: skip


def workload(kind):
    """Return the resource of a kind that has a template."""
    return Resource(WORKLOADS[kind], "v1", f"{kind.lower()}s", kind, dict)


def template_of(raw):
    """Return the template of a stored workload."""
    spec = raw["spec"]
    return (spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec)["template"]


class RoomTenant(Tenant):
    """A user with edit in team-a who may also create PodMigrationJobs, beside reserved room."""

    async def begin(self):
        await super().begin()
        await self.cluster.create(
            a_node("m", cpu="2"),
            a_device_class("gpu", extended_resource_name=DEVICE),
            a_slice("n-devices", node="n", devices=4),
            *(self._room(name, only) for name, only in ROOMS.items()),
            a_resource_policy(
                "cap", namespace=MINE, pods=CAPPED, strategy="required",
                units=[a_unit("n", nodes={HOST: "n"}, max_resources={DEVICE: str(CAP)})],
            ),
        )  # fmt: skip
        moved = a_deployment("web", namespace=MINE, replicas=4, **SMALL)
        await self.client.create(DEPLOYMENTS, moved, MINE)
        rules = [{"apiGroups": [POD_MIGRATION_JOBS.group], "resources": ["podmigrationjobs"],
                  "verbs": ["create", "get", "list", "patch", "update"]}]  # fmt: skip
        await self._make(RBAC, "ClusterRole", {"rules": rules})
        ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "jobs"}
        subject = {"apiGroup": RBAC, "kind": "Group", "name": MINE}
        await self._make(RBAC, "ClusterRoleBinding", {"roleRef": ref, "subjects": [subject]})

    async def _make(self, group, kind, body):
        resource = Resource(group, "v1", f"{kind.lower()}s", kind, dict, namespaced=False)
        await self.cluster.client.create(resource, {"metadata": {"name": "jobs"}, **body})

    @staticmethod
    def _room(name, only):
        owner = {"labelSelector": {"matchLabels": BATCH}}
        if name == "by-pod":
            owner = {"object": {"name": "batch"}}
        notes = {OWNER_NAMESPACES: only}
        return a_reservation(name, cpu="1", owners=[owner], annotations=notes, ttl="0",
                             allocate_once=False)  # fmt: skip

    def attacks(self):
        return (*super().attacks(), self._template, self._template, self._change_template,
                self._enter, self._enter, self._edit_room, self._job, self._job_of_admin,
                self._job_of_admin, self._ask_gpus, self._ask_devices, self._ask_devices,
                self._wait)  # fmt: skip

    def may_have(self, pod, recorded):
        """A job may also reserve for a pod of another deployment, or of none."""
        if super().may_have(pod, recorded) or not recorded:
            return True
        if recorded.keys() != {ALLOCATED}:
            return False
        room = json.loads(recorded[ALLOCATED])["name"]
        return room not in (*ROOMS, MINE, OTHERS)

    async def check(self):
        """Beside what holds for every tenant: rooms, templates, jobs, the quota and the cap."""
        await super().check()
        pods = (await self.cluster.client.list(PODS)).items
        for room in (await self.cluster.client.list(RESERVATIONS)).items:
            if room.name in ROOMS:
                ready = {c.type: c.status for c in room.status.conditions}["Ready"]
                assert (room.phase, ready) == ("Available", "True"), room.name
                assert not room.status.current_owners, room.name
            elif room.name not in (MINE, OTHERS):
                self._check_job_room(room)
        for kind in WORKLOADS:
            for raw in (await self.client.list(workload(kind), MINE)).items:
                labels = template_of(raw)["metadata"].get("labels") or {}
                assert labels.get(IGNORED) != "true", f"{kind} {raw['metadata']['name']}"
        mine = [p for p in pods if p.namespace == MINE and not p.finished]
        assert sum(map(gpu_cores, mine)) <= GPU_CORES
        await self._check_cap(mine)

    def _check_job_room(self, room):
        """What a job reserves is for the successor of the tenant's pod, and no larger than it."""
        for owner in room.spec.owners:
            found = owner.controller or owner.object
            assert found is not None, room.name
            assert found.uid or found.name, room.name
            assert found.namespace == MINE, room.name
        assert milli(room.status.allocatable.get("cpu", "0")) <= LARGEST, room.name

    async def _check_cap(self, mine):
        capped = {
            p.uid for p in mine if p.spec.node_name and p.metadata.labels.items() >= CAPPED.items()
        }
        devices = Counter()
        for claim in (await self.cluster.client.list(RESOURCE_CLAIMS, MINE)).items:
            users = {consumer.uid for consumer in claim.status.reserved_for}
            if users & capped:
                devices.update(r.device for r in claim.status.allocation.devices.results)
        assert devices.total() <= CAP, devices

    async def finish(self):
        """The other team still gets what is reserved for it."""
        await super().finish()
        owner = a_pod("batch", namespace=OTHERS, cpu="1", memory="1Mi", labels=BATCH)
        await self.others.create(PODS, owner, OTHERS)
        await self.cluster.advance(1)
        pod = await self.cluster.pod("batch", OTHERS)
        assert json.loads(pod.metadata.annotations[ALLOCATED])["name"] in ("limited", "by-pod")

    # --- reservation-ignored in templates -------------------------------------------------------

    async def _template(self):
        kind = self.dice.choice(sorted(WORKLOADS))
        labels = {IGNORED: "true"} if self.dice.random() < 0.7 else {}
        raw = self._workload(kind, labels)
        await self.client.create(workload(kind), raw, MINE)

    async def _change_template(self):
        """Add the label to the template of a stored workload, by a patch or an update."""
        kind = self.dice.choice(sorted(WORKLOADS))
        stored = (await self.client.list(workload(kind), MINE)).items
        if not stored:
            return
        raw = self.dice.choice(sorted(stored, key=lambda raw: raw["metadata"]["name"]))
        template_of(raw)["metadata"].setdefault("labels", {})[IGNORED] = "true"
        raw |= {"apiVersion": f"{WORKLOADS[kind]}/v1".lstrip("/")}
        if self.dice.random() < 0.5:
            await self.client.update(workload(kind), raw)
            return
        change = {"spec": raw["spec"]}
        await self.client.patch(workload(kind), raw["metadata"]["name"], change, MINE)

    def _workload(self, kind, labels):
        self._made += 1
        name = f"w{self._made}"
        containers = [{"name": "main", "image": "i", "resources": {"requests": SMALL}}]
        pod = {"containers": containers}
        if kind in ("Job", "CronJob"):
            pod["restartPolicy"] = "Never"
        template = {"metadata": {"labels": {"w": name, **labels}}, "spec": pod}
        spec = {"template": template}
        if kind not in ("Job", "CronJob"):
            selector = {"w": name}
            plain = kind == "ReplicationController"
            spec |= {"selector": selector if plain else {"matchLabels": selector}}
        meta = {"metadata": {"name": name, "namespace": MINE}}
        if kind == "CronJob":
            spec = {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}
        return meta | {"spec": spec | ({"serviceName": "s"} if kind == "StatefulSet" else {})}

    # --- owners of another namespace ------------------------------------------------------------

    async def _enter(self):
        """A pod that has the labels and the name of owners, names a room, forges its controller."""
        self._made += 1
        name = "batch" if self.dice.random() < 0.3 else f"e{self._made}"
        room = self.dice.choice([*ROOMS, OTHERS])
        notes = {AFFINITY: json.dumps({"name": room})} if self.dice.random() < 0.6 else {}
        forged = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u",
                  "controller": True}  # fmt: skip
        meta = {"ownerReferences": [forged]} if self.dice.random() < 0.3 else {}
        amounts = SMALL | {"cpu": self.dice.choice(("1m", "1"))}
        pod = a_pod(name, namespace=MINE, **amounts, labels=BATCH, annotations=notes, metadata=meta)
        await self.client.create(PODS, pod, MINE)

    async def _edit_room(self):
        change = self.dice.choice((
            {"metadata": {"annotations": {OWNER_NAMESPACES: MINE}}},
            {"metadata": {"annotations": {OWNER_NAMESPACES: None}}},
            {"spec": {"owners": [{"object": {}}]}},
        ))  # fmt: skip
        await self.client.patch(RESERVATIONS, self.dice.choice(sorted(ROOMS)), change)

    # --- jobs that make reservations ------------------------------------------------------------

    async def _job(self):
        """A job of the tenant for its own pod; one with a template is refused."""
        options = self._options()
        await self.client.create(POD_MIGRATION_JOBS, await self._new_job(options))
        assert not options, "a tenant made a job with a template"

    async def _job_of_admin(self):
        """A job of a user who may create reservations; the controller looks at its template."""
        await self.cluster.client.create(POD_MIGRATION_JOBS, await self._new_job(self._options()))

    async def _new_job(self, options):
        self._made += 1
        pods = (await self.client.list(PODS, MINE)).items
        small = [p.name for p in pods if pod_request(p).amounts.get("cpu", 0) <= LARGEST]
        moved = [name for name in small if name.startswith("web-")]
        names = moved if self.dice.random() < 0.7 else small
        name = self.dice.choice(sorted(names)) if names else "none"
        spec = {"podRef": {"namespace": MINE, "name": name}, "ttl": "5m", **options}
        return an_object(POD_MIGRATION_JOBS, f"j{self._made}", spec)

    def _options(self):
        larger = a_pod("t", cpu="1", memory="1Mi")["spec"]
        template = self.dice.choice((
            {},
            {"spec": {"owners": [{"object": {}}]}},
            {"spec": {"owners": [{"labelSelector": {"matchLabels": BATCH}}]}},
            {"spec": {"owners": [{"controller": {"name": "web", "namespace": OTHERS}}]}},
            {"spec": {"template": {"spec": larger}}},
        ))  # fmt: skip
        return {"reservationOptions": {"template": template}} if template else {}

    # --- names of GPUs and devices --------------------------------------------------------------

    async def _ask_gpus(self):
        self._made += 1
        amounts = self.dice.choice((
            {GPU: "400"}, {GPU: "60"}, {WHOLE_GPU: "1"}, {WHOLE_GPU: "3"},
            {GPU_CORE: "60", GPU_MEMORY_RATIO: "60"}, {GPU_CORE: "1", GPU_MEMORY_RATIO: "100"},
        ))  # fmt: skip
        pod = a_pod(f"gpus{self._made}", namespace=MINE, **SMALL, requests=amounts)
        await self.client.create(PODS, pod, MINE)

    async def _ask_devices(self):
        """Ask for a device by its name, by that of its class, or by a claim."""
        self._made += 1
        name = f"c{self._made}"
        how = self.dice.choice((DEVICE, IMPLICIT, "claim"))
        more = {"requests": {how: "1"}}
        if how == "claim":
            await self.client.create(RESOURCE_CLAIMS, a_claim(name, namespace=MINE), MINE)
            more = {"claims": [{"name": "dev", "resourceClaimName": name}]}
        pod = a_pod(name, namespace=MINE, **SMALL, labels=CAPPED, **more)
        await self.client.create(PODS, pod, MINE)

    async def _wait(self):
        await self.cluster.advance(self.dice.choice((1, 30, 120)))


def gpu_cores(pod):
    """Return the percent of GPUs that a pod asks for, by whatever name."""
    asked = pod.spec.containers[0].resources.requests
    whole = {WHOLE_GPU: 100, GPU: 1, GPU_CORE: 1}
    return sum(units(asked[name]) * percent for name, percent in whole.items() if name in asked)
