"""Random edits of pods, nodes and resource policies beside a running controller, with faults."""

import asyncio
import random
from contextlib import suppress

from holdfast.api.deletion_cost import DELETION_COST
from holdfast.api.scheme import NODES, PODS, RESOURCE_POLICIES
from holdfast.client.client import Client
from holdfast.controllers.controller_manager import ControllerManager
from holdfast.controllers.resource_policy.controller import ResourcePolicyController
from holdfast.runtime.errors import HoldfastError, NotFound
from holdfast.runtime.settings import ControllerSettings, ResourcePolicySettings
from holdfast.server.api_server import ApiServer
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.store import Store
from holdfast.testing import a_namespace, a_node, a_pod, a_resource_policy, a_unit
from holdfast.testing.bootstrap_copy import copy_bootstrap_objects
from holdfast.testing.builders import resource_of
from holdfast.testing.clock import VirtualClock
from holdfast.testing.loop_writer import LoopWriter

SPACES = ("default", "team")
TIERS = ("od", "od", "spot", "spot", "fast", None)
NODE_NAMES = ("n0", "n1", "n2", "n3", "n4")
USER_COSTS = ("7", "-13", "2147483647", "1")
"""Costs that users set; the controller writes multiples of 100."""


class PolicyCluster:
    """An API server and the resource policy controller, which can be stopped and started.

    ``layers`` wrap the transport between them, to inject faults or record requests.
    """

    def __init__(self, directory, layers, *, drain_excess):
        self.clock = VirtualClock()
        self._store = Store.open(directory, self.clock, writer=LoopWriter)
        self._layers = layers
        self._settings = ControllerSettings(
            resource_policies=ResourcePolicySettings(drain_excess=drain_excess)
        )
        self.drain_excess = drain_excess
        self._controllers = None

    async def __aenter__(self):
        self.server = ApiServer.create(self._store, self.clock)
        await self.server.start(copy_bootstrap_objects)
        self.client = Client(InProcessTransport(self.server), "test")
        await self.start_controller()
        return self

    async def __aexit__(self, *_error):
        await self.stop_controller()
        await self.client.close()
        await self.server.stop()
        await self._store.close()

    async def start_controller(self):
        if self._controllers is None:
            transport = InProcessTransport(self.server)
            for layer in self._layers:
                transport = layer.wrap(transport, self.clock)
            self._controllers = ControllerManager(
                Client(transport, "controllers"),
                self.clock,
                kinds=(ResourcePolicyController,),
                settings=self._settings,
            )
            await self._while_time_passes(self._controllers.start())

    async def stop_controller(self):
        if self._controllers is not None:
            await self._while_time_passes(self._controllers.stop())
            self._controllers = None

    async def _while_time_passes(self, work):
        """Wait for work that injected faults delay."""
        task = asyncio.create_task(work)
        await self.clock.advance_until(task.done)
        await task

    def end_watches(self):
        for watching in tuple(self.server.context.watches):
            watching.close()

    async def create(self, *objects):
        for raw in objects:
            await self.client.create(resource_of(raw), raw, raw["metadata"].get("namespace", ""))

    async def pods(self):
        return (await self.client.list(PODS)).items


class PolicySteps:
    """Random steps; ``user_costs`` has what users have set, by the uid of the pod."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.user_costs = {}
        self.count = 0
        self.log = []

    async def begin(self):
        await self.cluster.create(a_namespace("team"))
        for name in NODE_NAMES:
            await self._new_node(name)
        for _ in range(4):
            await self._new_policy()
        for _ in range(12):
            await self._new_pod()

    async def step(self, most=6, *, calm=False):
        """Make up to ``most`` random steps at once, then let a random time pass.

        In a calm step the controller runs on, and policies stay as they are: what changes then is
        not corrected by counting all pods again.
        """
        steps = {
            self._new_pod: 40,
            self._gone_pod: 6,
            self._terminating_pod: 5,
            self._finished_pod: 3,
            self._bound_pod: 8,
            self._relabelled_pod: 20,
            self._user_cost: 6,
            self._no_user_cost: 4,
            self._new_node: 6,
            self._gone_node: 2,
            self._relabelled_node: 10,
        }
        if not calm:
            steps |= {
                self._new_policy: 10,
                self._edited_policy: 8,
                self._gone_policy: 4,
                self._stop: 2,
                self._start: 6,
                self._end_watches: 2,
            }
        for made in self.rng.choices(
            list(steps), list(steps.values()), k=self.rng.randint(1, most)
        ):
            with suppress(NotFound):
                detail = await made()
                self.log.append(f"{made.__name__[1:]} {detail or ''}")
            if self.rng.random() < 0.5:
                await self.cluster.clock.settle()
        await self.cluster.clock.advance(self.rng.choice((0.0, 0.1, 0.7, 3.0)))

    def _labels(self):
        found = {"app": self.rng.choice(("web", "web", "api"))}
        if self.rng.random() < 0.6:
            found["hash"] = self.rng.choice(("h1", "h2"))
        if self.rng.random() < 0.2:
            found["team"] = "x"
        if self.rng.random() < 0.5:
            found["zone"] = self.rng.choice("ab")
        return found

    async def _new_pod(self):
        self.count += 1
        name, space = f"p{self.count}", self.rng.choice(SPACES)
        node = self.rng.choice((*NODE_NAMES, None, None))
        mine = self.rng.choice(USER_COSTS) if self.rng.random() < 0.1 else None
        raw = a_pod(
            name,
            namespace=space,
            node=node,
            labels=self._labels(),
            cpu=self.rng.choice(("250m", "1", "2")),
            annotations={DELETION_COST: mine} if mine else None,
        )
        stored = await self.cluster.client.create(PODS, raw, space)
        if mine is not None:
            self.user_costs[stored.uid] = mine
        return f"{space}/{name} on {node}"

    async def _some_pod(self):
        pods = await self.cluster.pods()
        if not pods:
            raise NotFound("no pod")
        return self.rng.choice(pods)

    async def _patch_pod(self, pod, meta):
        await self.cluster.client.patch(PODS, pod.name, {"metadata": meta}, pod.namespace)
        return f"{pod.key} {meta}"

    async def _gone_pod(self):
        pod = await self._some_pod()
        await self.cluster.client.delete(PODS, pod.name, pod.namespace, grace_seconds=0)
        self.user_costs.pop(pod.uid, None)
        return pod.key

    async def _terminating_pod(self):
        pod = await self._some_pod()
        await self.cluster.client.delete(PODS, pod.name, pod.namespace)
        return pod.key

    async def _finished_pod(self):
        pod = await self._some_pod()
        phase = {"status": {"phase": self.rng.choice(("Succeeded", "Failed"))}}
        await self.cluster.client.patch(PODS, pod.name, phase, pod.namespace, subresource="status")
        return pod.key

    async def _bound_pod(self):
        waiting = [
            p for p in await self.cluster.pods() if not p.spec.node_name and not p.terminating
        ]
        nodes = (await self.cluster.client.list(NODES)).items
        if not waiting or not nodes:
            return "none"
        pod, node = self.rng.choice(waiting), self.rng.choice(nodes).name
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name},
            "target": target,
        }
        with suppress(HoldfastError):  # it may be finished
            await self.cluster.client.bind(pod.namespace, pod.name, body)
        return f"{pod.key} on {node}"

    async def _relabelled_pod(self):
        pod = await self._some_pod()
        return await self._patch_pod(
            pod, {"labels": {"hash": None, "team": None, "zone": None, **self._labels()}}
        )

    async def _user_cost(self):
        pod = await self._some_pod()
        cost = self.user_costs[pod.uid] = self.rng.choice(USER_COSTS)
        return await self._patch_pod(pod, {"annotations": {DELETION_COST: cost}})

    async def _no_user_cost(self):
        pod = await self._some_pod()
        self.user_costs.pop(pod.uid, None)
        return await self._patch_pod(pod, {"annotations": {DELETION_COST: None}})

    async def _new_node(self, name=None):
        name = name or self.rng.choice(NODE_NAMES)
        tier = self.rng.choice(TIERS)
        with suppress(HoldfastError):  # it may exist
            await self.cluster.create(a_node(name, labels={"tier": tier} if tier else {}))
        return f"{name} {tier}"

    async def _gone_node(self):
        name = self.rng.choice(NODE_NAMES)
        await self.cluster.client.delete(NODES, name)
        return name

    async def _relabelled_node(self):
        name = self.rng.choice(NODE_NAMES)
        labels = {"tier": self.rng.choice(TIERS), "disk": self.rng.choice(("ssd", None))}
        await self.cluster.client.patch(NODES, name, {"metadata": {"labels": labels}})
        return f"{name} {labels}"

    def _spec(self):
        rng = self.rng
        units = [
            a_unit(tier, rng.randint(0, 3), nodes={"tier": tier}, max_count=rng.choice((0, 1, 3)))
            for tier in ("od", "spot", "fast")[: rng.randint(1, 3)]
        ]
        if rng.random() < 0.4:
            units.append(a_unit("ssd", rng.randint(0, 9), nodes={"disk": "ssd"}))
        if rng.random() < 0.3:
            units[0]["maxResources"] = {"cpu": rng.choice(("1500m", "4"))}
        return a_resource_policy(
            pods=rng.choice((*2 * ({"app": "web"}, {"app": "api"}), {"team": "x"}, {})),
            units=units,
            match_label_keys=rng.choice(([], ["hash"], ["hash", "zone"])),
            match_policy={
                "ignoreTerminatingPod": rng.random() < 0.5,
                "ignorePreviousPod": rng.random() < 0.2,
            },
        )["spec"]

    async def _new_policy(self):
        space, name = self.rng.choice(SPACES), self.rng.choice("pqr")
        made = a_resource_policy(name, namespace=space) | {"spec": self._spec()}
        with suppress(HoldfastError):  # it may exist
            await self.cluster.create(made)
        return f"{space}/{name} {made['spec']}"

    async def _some_policy(self):
        policies = (await self.cluster.client.list(RESOURCE_POLICIES)).items
        if not policies:
            raise NotFound("no policy")
        return self.rng.choice(policies)

    async def _edited_policy(self):
        policy = await self._some_policy()
        spec = self._spec()
        await self.cluster.client.patch(
            RESOURCE_POLICIES, policy.name, {"spec": spec}, policy.namespace
        )
        return f"{policy.key} {spec}"

    async def _gone_policy(self):
        policy = await self._some_policy()
        await self.cluster.client.delete(RESOURCE_POLICIES, policy.name, policy.namespace)
        return policy.key

    async def _stop(self):
        await self.cluster.stop_controller()

    async def _start(self):
        await self.cluster.start_controller()

    async def _end_watches(self):
        self.cluster.end_watches()
