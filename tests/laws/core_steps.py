"""Random events of pods and reservations with CPUs and GPUs, their nodes, and migrations."""

from contextlib import suppress

from holdfast.api.scheme import (
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    SHARED_DEVICES,
)
from holdfast.runtime.errors import AlreadyExists, NotFound
from holdfast.testing import a_deployment
from holdfast.testing.builders import an_object
from laws.core_worlds import NODES as NODE_NAMES
from laws.core_worlds import RandomCores, words_of
from laws.random_events import RandomEvents

RUN_FOR, STOP_AFTER = "holdfast.dev/run-for", "holdfast.dev/stop-after"


class CoreLife(RandomEvents):
    """Random events in a cluster whose nodes have CPU topologies and shared GPUs."""

    def __init__(self, cluster, seed):
        super().__init__(cluster, seed)
        self.make = RandomCores(seed)
        self.objects = {name: self.make.node_objects(name, lists_gpus=True) for name in NODE_NAMES}
        """The objects of each node: they are the same whenever the node comes back."""

    async def begin(self):
        """Create two of the nodes, and a Deployment whose pods may be moved."""
        for name in NODE_NAMES[:2]:
            self.log.append(await self._add_node(name))
        labels, notes, cpu, requests = self.make.wishes()
        moved = a_deployment(
            "moved", replicas=2, cpu=cpu, requests=requests, labels={**labels, "app": "moved"},
            annotations=notes,
        )  # fmt: skip
        self.log.append(words_of(moved))
        await self.cluster.create(moved)

    async def step(self):
        """Apply a few random events at once, then settle."""
        await self.apply(
            {
                self._new_pod: 36, self._new_reservation: 22, self._gone_pod: 18,
                self._gone_reservation: 5, self._migration: 8, self._gone_job: 1,
                self._new_node: 4, self._gone_node: 1, self._gone_topology: 1,
                self._gone_device: 1, self._other_health: 2, self._pass_time: 20,
                self._restart_components: 2, self._restart_everything: 1,
            }
        )  # fmt: skip

    async def finish(self):
        """Publish the objects of the nodes again."""
        for name in (node.name for node in (await self.cluster.client.list(NODES)).items):
            await self._add_node(name)

    async def _new_pod(self):
        raw = self.make.pod()
        note = self.rng.choice(({}, {}, {RUN_FOR: "5s"}, {STOP_AFTER: "8s"}))
        raw["metadata"].setdefault("annotations", {}).update(note)
        await self.cluster.create(raw, settle=False)
        return words_of(raw)

    async def _new_reservation(self):
        raw = self.make.reservation(ttl=self.rng.choice(("15s", "60s", "1h", "1h")))
        await self.cluster.create(raw, settle=False)
        return words_of(raw)

    async def _migration(self):
        """Move a bound pod; it is owned by the Deployment, or replaced by nothing."""
        bound = [p for p in (await self.cluster.client.list(PODS)).items if p.spec.node_name]
        moved = [p for p in bound if p.metadata.labels.get("app") == "moved"] or bound
        if not moved:
            return None
        pod = self.rng.choice(sorted(moved, key=lambda pod: pod.name))
        ref = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        mode = self.rng.choice(("ReservationFirst", "ReservationFirst", "EvictDirectly"))
        spec = {"podRef": ref, "mode": mode, "ttl": self.rng.choice(("20s", "5m"))}
        job = an_object(POD_MIGRATION_JOBS, self.make.name("j"), spec)
        await self.cluster.create(job, settle=False)
        return f"{job['metadata']['name']} {pod.name} {mode}"

    async def _new_node(self):
        return await self._add_node(self.rng.choice(NODE_NAMES))

    async def _add_node(self, name):
        for raw in self.objects[name]:
            with suppress(AlreadyExists):
                await self.cluster.create(raw, settle=False)
        return [words_of(raw) for raw in self.objects[name]]

    async def _other_health(self):
        """Make a GPU unhealthy, or healthy again."""
        found = sorted((await self.cluster.client.list(SHARED_DEVICES)).items, key=lambda d: d.name)
        if not found:
            return None
        name = self.rng.choice(found).name
        [raw] = [raw for raw in self.objects[name] if raw["kind"] == "Device"]
        gpu = self.rng.choice(raw["spec"]["devices"])
        gpu["health"] = not gpu["health"]
        patch = {"spec": {"devices": raw["spec"]["devices"]}}
        await self.cluster.client.patch(SHARED_DEVICES, name, patch)
        return f"{name} {gpu['minor']} {gpu['health']}"

    async def _gone_node(self):
        return await self._gone(NODES)

    async def _gone_topology(self):
        return await self._gone(NODE_RESOURCE_TOPOLOGIES)

    async def _gone_device(self):
        return await self._gone(SHARED_DEVICES)

    async def _gone_pod(self):
        return await self._gone(PODS, "default")

    async def _gone_reservation(self):
        return await self._gone(RESERVATIONS)

    async def _gone_job(self):
        return await self._gone(POD_MIGRATION_JOBS)

    async def _gone(self, resource, namespace=""):
        there = sorted(obj.name for obj in (await self.cluster.client.list(resource)).items)
        if not there:
            return None
        name = self.rng.choice(there)
        with suppress(NotFound):
            await self.cluster.client.delete(resource, name, namespace)
        return name
