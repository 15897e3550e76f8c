"""Objects of the common setup, and what the tests read from a cluster."""

from collections import Counter

from holdfast.api.scheme import NODES, PODS, RESOURCE_POLICIES
from holdfast.client.informer import Informer
from holdfast.scheduling.engine.explanation import explain
from holdfast.testing import (
    Fault,
    a_namespace,
    a_node,
    a_pod,
    a_priority_class,
    a_resource_policy,
    a_unit,
    typed,
)

WEB = "web"
PLUGIN = "resourcepolicy"
UNIT_FULL = "ResourcePolicyUnitFull"
"""The reason of events and conditions."""
TIERS = {"a": "od", "b": "spot", "c": None}
"""The label `tier` of the nodes, by the first letter of their names."""


def node(name, **more):
    """A node of 8 CPUs and 110 pods; the first letter of its name decides its tier."""
    tier = TIERS[name[0]]
    labels = ({"tier": tier} if tier else {}) | more.pop("labels", {})
    return a_node(name, labels=labels, **more)


def common_nodes(**more):
    """Namespace `web` and the nodes a1, a2, b1, b2 and c1."""
    return [a_namespace(WEB), *(node(name, **more) for name in ("a1", "a2", "b1", "b2", "c1"))]


def od(priority=5, max_count=2, **more):
    """The unit of the nodes with tier=od."""
    return a_unit("od", priority, nodes={"tier": "od"}, max_count=max_count, **more)


def spot(priority=4, max_count=3, **more):
    """The unit of the nodes with tier=spot."""
    return a_unit("spot", priority, nodes={"tier": "spot"}, max_count=max_count, **more)


def policy(name="p", *, units=None, **spec):
    """Policy `p` of the common setup; keywords are fields of its spec, None leaves one out."""
    spec.setdefault("namespace", WEB)
    spec.setdefault("pods", {"app": "web"})
    spec.setdefault("strategy", "prefer")
    spec.setdefault("match_policy", {"ignoreTerminatingPod": True})
    return a_resource_policy(name, units=[od(), spot()] if units is None else units, **spec)


def pod(name="w", *, app="web", labels=None, stops_after=None, **more):
    """A pod of `web` that the policy selects; ``stops_after`` seconds it is terminating."""
    more.setdefault("namespace", WEB)
    notes = dict(more.pop("annotations", {}))
    if stops_after is not None:
        notes["holdfast.dev/stop-after"] = f"{stops_after}s"
        more.setdefault("terminationGracePeriodSeconds", stops_after)
    return a_pod(name, labels={"app": app, **(labels or {})}, annotations=notes, **more)


def classes(**values):
    """Priority classes by name: ``classes(low=1, high=1000)``."""
    return [a_priority_class(name, value) for name, value in values.items()]


async def create_each(cluster, *objects):
    """Create objects one after the other; each time wait until all components are idle."""
    for obj in objects:
        await cluster.create(obj)


async def place(cluster, count, prefix="w", **more):
    """Create pods one after the other; return the first letter of each one's node, or ""."""
    names = [f"{prefix}{i}" for i in range(count)]
    await create_each(cluster, *(pod(name, **more) for name in names))
    return [(await cluster.node_of(name, WEB))[:1] for name in names]


async def node_of(cluster, name="w"):
    """Return the node of a pod of `web`, or ""."""
    return await cluster.node_of(name, WEB)


async def why(cluster, name="w"):
    """Return the message of a pod's PodScheduled condition, or ""."""
    return await cluster.why(name, WEB)


async def condition(cluster, name="w"):
    """Return a pod's PodScheduled condition."""
    found = (await cluster.pod(name, WEB)).status.conditions
    return next(c for c in found if c.type == "PodScheduled")


async def event_messages(cluster, reason, name="w"):
    """Return the messages of a pod's events of one reason, oldest first."""
    return [message for r, message in await cluster.events(name, WEB) if r == reason]


async def pods_by_letter(cluster, namespace=WEB):
    """Count the bound, unfinished pods by the first letter of their node, from the API."""
    pods = (await cluster.client.list(PODS, namespace)).items
    return Counter(p.spec.node_name[0] for p in pods if p.spec.node_name and not p.finished)


def pods_in_table(cluster, namespace=WEB):
    """Count the scheduler's own pods, also assumed ones, by the first letter of their node."""
    nodes = cluster.world.nodes
    there = ((info, nodes.names[row]) for info, row in nodes.pods() if not info.is_reserve_pod)
    return Counter(name[0] for info, name in there if info.namespace == namespace)


def explained(cluster, raw=None, **more):
    """Return what `holdfast explain` prints for a pod, in the scheduler's world of now."""
    profile = cluster.components.scheduler.profiles["default-scheduler"]
    return explain(profile, typed(raw or pod("asking")), cluster.world, cluster.clock.now(), **more)


def unit_scores(cluster, raw=None, field="normalized"):
    """Return the policy's score of each feasible node; ``field``: raw, normalized or weighted."""
    nodes = explained(cluster, raw)["nodes"]
    return {n["name"]: n["scores"][PLUGIN][field] for n in nodes if PLUGIN in n["scores"]}


async def delete_gone(cluster, *names):
    """Delete pods without a grace period, so that they are gone at once, then settle."""
    for name in names:
        await cluster.client.delete(PODS, name, WEB, grace_seconds=0)
    await cluster.settle()


async def terminate(cluster, *names):
    """Delete pods that were created with ``stops_after``: they are terminating from now on."""
    for name in names:
        await cluster.client.delete(PODS, name, WEB)
    await cluster.settle()
    assert all([(await cluster.pod(name, WEB)).terminating for name in names])


async def relabel(cluster, name="w", **labels):
    """Change labels of a pod of `web`; None removes one."""
    await cluster.client.patch(PODS, name, {"metadata": {"labels": labels}}, WEB)
    await cluster.settle()


async def relabel_node(cluster, name, **labels):
    """Change labels of a node; None removes one."""
    await cluster.client.patch(NODES, name, {"metadata": {"labels": labels}})
    await cluster.settle()


async def edit_policy(cluster, name="p", **spec):
    """Replace fields of a policy's spec, in the form of the API."""
    await cluster.client.patch(RESOURCE_POLICIES, name, {"spec": spec}, WEB)
    await cluster.settle()


def delay_binds(network, seconds, times=1000, name=""):
    """Delay the next binds, of all pods or of one."""
    path = f"/pods/{name}/binding" if name else "/binding"
    network.add(Fault("delay", method="POST", path=path, seconds=seconds, times=times))


def fail_binds(network, times=1, name="", trouble="unavailable"):
    """Let the next binds fail, of all pods or of one; with "lost" they are stored nevertheless."""
    path = f"/pods/{name}/binding" if name else "/binding"
    network.add(Fault(trouble, method="POST", path=path, times=times))


class PodHistory:
    """Follows the pods of `web` in the API; ``highest`` has the most at any instant, by letter."""

    def __init__(self, cluster):
        self.highest = Counter()
        self.binds = []
        self._nodes = {}
        self._informer = Informer(
            cluster.client, PODS, clock=cluster.clock, on_event=self._on_pod, namespace=WEB
        )

    async def __aenter__(self):
        self._informer.start()
        return self

    async def __aexit__(self, *_):
        await self._informer.stop()

    def _on_pod(self, _kind, old, new):
        gone = new is None or new.finished or not new.spec.node_name
        if gone:
            self._nodes.pop((old or new).uid, None)
            return
        if new.uid not in self._nodes:
            self.binds.append((new.name, new.spec.node_name))
        self._nodes[new.uid] = new.spec.node_name
        self.highest |= Counter(name[0] for name in self._nodes.values())
