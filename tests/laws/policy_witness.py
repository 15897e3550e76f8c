"""A plugin that recounts at every placement, from what the scheduler's informers have received."""

from holdfast.api.scheme import NODES, PODS, RESOURCE_POLICIES
from holdfast.scheduling.framework.plugin import Plugin, Reserver
from laws.policy_recount import Recount, priority_of


class Witness(Plugin, Reserver):
    """Checks every placement when it is reserved; ``faults`` lists what is wrong."""

    name = "Witness"

    def __init__(self):
        self.cluster = None
        self.faults = []
        self.placements = 0
        self._assumed = {}
        self._components = None

    def pre_filter(self, pod, view):
        return self

    def reserve(self, placement):
        """Check a placement; the Reserve plugins of the scheduler have run before."""
        asking = placement.pod
        if asking.is_reserve_pod:
            return
        recount = self.recount()
        node = recount.nodes[placement.node]
        self.placements += 1
        if why := recount.refusal(asking.pod, node):
            self.faults.append(f"{asking.name} is placed on {node.name}: {why}")
        # A nominated pod goes to its node if it fits there, as upstream.
        if not (self.cluster.world.nominations or placement.nominated_node):
            self._check_tier(recount, asking.pod, node)
        self._assumed[asking.uid] = placement.node

    def unreserve(self, placement):
        """Forget a placement that was not carried out."""
        self._assumed.pop(placement.pod.uid, None)

    def _check_tier(self, recount, asking, chosen):
        found = recount.policies_of(asking)
        if len(found) != 1:
            return
        here = priority_of(found[0], chosen)
        for node in recount.possible_nodes(asking):
            if priority_of(found[0], node) > here:
                self.faults.append(f"{asking.name} is on {chosen.name}, {node.name} is better")

    def recount(self):
        """Return the objects that the scheduler knows, with its assumed pods."""
        if self.cluster.components is not self._components:
            # A scheduler that was started again has assumed no pods.
            self._components = self.cluster.components
            self._assumed.clear()
        informers = self.cluster.components.scheduler.informers.informer_set
        pods = informers.get(PODS).cache.values()
        known = {pod.uid for pod in pods if not pod.spec.node_name}
        assumed = {uid: node for uid, node in self._assumed.items() if uid in known}
        return Recount(
            {node.name: node for node in informers.get(NODES).cache.values()},
            list(pods),
            list(informers.get(RESOURCE_POLICIES).cache.values()),
            assumed,
            self.cluster.clock.now(),
        )
