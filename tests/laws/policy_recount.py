"""Resource policies counted from API objects, in a simple and slow way.

Nothing here uses ``capacity.policies`` or the node table: these are the formulas of the
specification over lists of pods, nodes and policies.
"""

from dataclasses import dataclass, field

from holdfast.api.durations import parse_seconds
from holdfast.api.pod import Pod
from holdfast.api.quantity import milli, units
from holdfast.api.requests import pod_request
from holdfast.api.timestamps import parse_rfc3339

NO_LABELS = Pod()
"""A pod without labels, which agrees with all pods of a policy."""
OUTSIDE = -1
"""The priority of a node that is in no unit."""


@dataclass
class Recount:
    """The objects at one moment; ``assumed`` maps uids of pods that are not bound yet to nodes."""

    nodes: dict
    pods: list
    policies: list
    assumed: dict = field(default_factory=dict)
    now: float = 0.0

    def node_of(self, pod):
        """Return the name of the node that a pod is bound or assumed to, or ""."""
        return pod.spec.node_name or self.assumed.get(pod.uid, "")

    def policies_of(self, pod):
        """Return the policies that select a pod."""
        return [policy for policy in self.policies if selects(policy, pod)]

    def counted(self, policy, unit, asking):
        """Return the pods that count in a unit beside ``asking``."""
        return [
            pod
            for pod in self.group(policy, asking)
            if in_unit(unit, self.nodes.get(self.node_of(pod)))
            and not (pod.terminating and policy.spec.match_policy.ignore_terminating_pod)
            and not self._previous(policy, pod)
        ]

    def group(self, policy, asking):
        """Return the pods on nodes that the policy selects and that agree with ``asking``."""
        keys = [k for k in policy.spec.match_label_keys if k in asking.metadata.labels]
        return [
            pod
            for pod in self.pods
            if pod.uid != asking.uid
            and not pod.finished
            and self.node_of(pod)
            and selects(policy, pod)
            and all(pod.metadata.labels.get(k) == asking.metadata.labels[k] for k in keys)
        ]

    def _previous(self, policy, pod):
        if not policy.spec.match_policy.ignore_previous_pod or not pod.spec.node_name:
            return False
        scheduled = [
            c.last_transition_time
            for c in pod.status.conditions
            if c.type == "PodScheduled" and c.status == "True" and c.last_transition_time
        ]
        times = [*scheduled, pod.status.start_time, pod.metadata.creation_timestamp]
        bound = next(text for text in times if text)
        return parse_rfc3339(bound) < parse_rfc3339(policy.metadata.creation_timestamp)

    def full(self, policy, unit, asking):
        """Return why a unit cannot take the pod, or ""."""
        there = self.counted(policy, unit, asking)
        if unit.max_count is not None and len(there) >= unit.max_count:
            return f"{unit.name} has {len(there)} of {unit.max_count}: {[p.name for p in there]}"
        for name, cap in unit.max_resources.items():
            used = sum(amount(pod, name) for pod in there)
            most = milli(cap) if name == "cpu" else units(cap)
            if used + amount(asking, name) > most:
                return f"{unit.name} has {used} {name} of {most}: {[p.name for p in there]}"
        return ""

    def headroom(self, policy, unit):
        """Return (counted pods, pods that are left for the group with the least, or None)."""
        alone = [Recount(self.nodes, [pod], []) for pod in self.pods]
        there = [one.pods[0] for one in alone if one.counted(policy, unit, NO_LABELS)]
        most = max([len(self.counted(policy, unit, pod)) + 1 for pod in there], default=0)
        return len(there), None if unit.max_count is None else max(0, unit.max_count - most)

    def refusal(self, asking, node):
        """Return why the policies do not allow a pod on a node, or ""."""
        found = self.policies_of(asking)
        if not found:
            return ""
        if len(found) > 1:
            return f"{len(found)} policies"
        [policy] = found
        inside = [unit for unit in policy.spec.units if in_unit(unit, node)]
        if not inside and policy.spec.strategy != "prefer":
            return "in no unit"
        for unit in inside:
            if why := self.full(policy, unit, asking):
                return why
        return self._waits(policy, asking, priority_of(policy, node))

    def _waits(self, policy, asking, here):
        """Return why the pod has to wait for a unit of higher priority, or ""."""
        rule = policy.spec.when_try_next_units
        better = [unit for unit in policy.spec.units if unit.priority > here]
        open_units = [unit for unit in better if not self.full(policy, unit, asking)]
        if rule.policy == "ExceedMax":
            capped = [u for u in open_units if u.max_count is not None or u.max_resources]
            return f"{capped[0].name} is not full" if capped else ""
        if rule.policy == "TimeoutOrExceedMax":
            steps = len({unit.priority for unit in open_units})
            created = parse_rfc3339(asking.metadata.creation_timestamp)
            opens = created + steps * parse_seconds(rule.timeout)
            return f"{steps} priorities wait until {opens}" if steps and self.now < opens else ""
        if rule.policy == "LackResourceAndNoTerminating":
            for pod in self.group(policy, asking):
                there = self.nodes.get(self.node_of(pod))
                if pod.terminating and any(in_unit(unit, there) for unit in better):
                    return f"{pod.name} is terminating"
        return ""

    def has_room(self, asking, node):
        """Return whether a node has the CPU and the pod slot for a pod, and no taints."""
        if node.spec.taints or node.spec.unschedulable:
            return False
        there = [
            p
            for p in self.pods
            if p.uid != asking.uid and not p.finished and self.node_of(p) == node.name
        ]
        free = milli(node.status.allocatable["cpu"]) - sum(amount(p, "cpu") for p in there)
        return amount(asking, "cpu") <= free and len(there) < units(node.status.allocatable["pods"])

    def possible_nodes(self, asking):
        """Return the nodes that have room and that the policies allow."""
        return [
            node
            for node in self.nodes.values()
            if self.has_room(asking, node) and not self.refusal(asking, node)
        ]


def amount(pod, resource):
    """Return a pod's request: cpu in millicores, others in units."""
    return pod_request(pod).amounts.get(resource, 0)


def selects(policy, pod):
    """Return whether a policy selects a pod: the same namespace, and the selector."""
    return policy.metadata.namespace == pod.metadata.namespace and matches(
        policy.spec.pod_selector, pod.metadata.labels
    )


def in_unit(unit, node):
    """Return whether a node is in a unit; None is a node that does not exist."""
    return node is not None and matches(unit.node_selector, node.metadata.labels)


def priority_of(policy, node):
    """Return the highest priority of a node's units."""
    return max((u.priority for u in policy.spec.units if in_unit(u, node)), default=OUTSIDE)


def matches(selector, labels):
    """Evaluate a label selector."""
    equal = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return equal and all(_holds(term, labels) for term in selector.match_expressions)


def _holds(term, labels):
    there = term.key in labels
    return {
        "In": there and labels.get(term.key) in term.values,
        "NotIn": labels.get(term.key) not in term.values,
        "Exists": there,
        "DoesNotExist": not there,
    }[term.operator]
