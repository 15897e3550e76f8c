"""Costs and status of resource policies, counted from the objects of the API without any index."""

from holdfast.api.deletion_cost import DELETION_COST, MANAGED_DELETION_COST, POLICY_UID
from holdfast.api.labels import from_selector
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.scheme import NODES, PODS, RESOURCE_POLICIES
from holdfast.api.timestamps import parse_rfc3339


class CostRecount:
    """All policies, pods and nodes of a cluster at one time."""

    def __init__(self, policies, pods, nodes):
        self.policies = policies
        self.pods = pods
        self.labels = {node.name: node.metadata.labels for node in nodes}

    @classmethod
    async def of(cls, client):
        """Read the objects."""
        kinds = (RESOURCE_POLICIES, PODS, NODES)
        return cls(*[(await client.list(kind)).items for kind in kinds])

    def wrong_statuses(self):
        """Return policies with what their status should be and what it is."""
        for policy in self.policies:
            status = policy.status
            got = {
                "generation": status.observed_generation,
                "units": [
                    (
                        u.name,
                        u.nodes,
                        u.pods,
                        u.max_count,
                        in_nanos(u.resources),
                        sorted((g.pods, sorted(g.labels.items())) for g in u.groups),
                    )
                    for u in status.units
                ],
                "usage": status.usage,
                "headroom": status.headroom,
                "True": sorted(c.type for c in status.conditions if c.status == "True"),
            }
            expected = self._status(policy)
            if got != expected:
                yield policy.key, expected, got

    def wrong_costs(self, user_costs, *, drain_excess):
        """Return pods with what their annotations should be and what they are."""
        for pod in self.pods:
            notes = pod.metadata.annotations
            got = tuple(notes.get(k) for k in (DELETION_COST, MANAGED_DELETION_COST, POLICY_UID))
            selecting = [p for p in self.policies if selects(p, pod)]
            skipped = pod.terminating or pod.finished or not pod.spec.node_name
            if pod.uid in user_costs:
                alone = got[1:] == (None, None) or skipped or len(selecting) > 1
                alone |= pod.spec.node_name not in self.labels
                if got[0] != user_costs[pod.uid] or not alone:
                    yield pod.key, user_costs[pod.uid], got
            elif skipped or len(selecting) > 1:
                continue  # what was written last
            elif not selecting:
                if got != (None, None, None):
                    yield pod.key, None, got
            elif pod.spec.node_name in self.labels:
                cost = self._cost(selecting[0], pod, drain_excess)
                if got != (cost, cost, selecting[0].uid):
                    yield pod.key, cost, got

    def _units_of(self, policy, pod):
        labels = self.labels.get(pod.spec.node_name)
        return [] if labels is None else [u for u in policy.spec.units if has(u, labels)]

    def _cost(self, policy, pod, drain_excess):
        units = self._units_of(policy, pod)
        if drain_excess and any(self._is_excess(policy, unit, pod) for unit in units):
            return "-100"
        ranks = sorted({unit.priority for unit in policy.spec.units})
        best = max((unit.priority for unit in units), default=None)
        return "0" if best is None else str(100 * (ranks.index(best) + 1))

    def _is_excess(self, policy, unit, pod):
        group = self._group(policy, unit, pod)
        if pod not in group:
            return False
        newest = sorted(group, key=newness, reverse=True)
        while newest and over(unit, newest):
            # Of the newest pods those go whose leaving helps.
            many = unit.max_count is not None and len(newest) > unit.max_count
            first = next(p for p in newest if many or requests_above(unit, newest, p))
            if first is pod:
                return True
            newest.remove(first)
        return False

    def _members(self, policy, unit):
        return [
            p
            for p in self.pods
            if p.spec.node_name and counts(policy, p) and unit in self._units_of(policy, p)
        ]

    def _group(self, policy, unit, pod):
        same = pinned(policy, pod).items()
        return [
            p
            for p in self._members(policy, unit)
            if all(p.metadata.labels.get(k) == v for k, v in same)
        ]

    def _listed_groups(self, policy, unit, members):
        """Return the groups as the status lists them: the pods that count, and the labels."""
        found = {}
        for pod in members:
            labels = pinned(policy, pod)
            if labels:
                group = self._group(policy, unit, pod)
                found[tuple(sorted(labels.items()))] = (len(group), sorted(labels.items()))
        return found.values()

    def _status(self, policy):
        units, usage, free = [], [], []
        above = False
        for unit in policy.spec.units:
            members = self._members(policy, unit)
            groups = [self._group(policy, unit, pod) for pod in members]
            most = max(map(len, groups), default=0)
            nodes = [name for name, labels in self.labels.items() if has(unit, labels)]
            used = {r: sum(request_nanos(p).get(r, 0) for p in members) for r in unit.max_resources}
            units.append(
                (
                    unit.name,
                    len(nodes),
                    len(members),
                    unit.max_count,
                    used,
                    sorted(self._listed_groups(policy, unit, members)),
                )
            )
            cap = unit.max_count
            usage.append(f"{unit.name} {most}" if cap is None else f"{unit.name} {most}/{cap}")
            places = None if cap is None else max(0, cap - most)
            free.append(0 if any(used_up(unit, group) for group in groups) else places)
            above |= any(over(unit, group) for group in groups)
        others = [p for p in self.policies if p.uid != policy.uid]
        mine = [pod for pod in self.pods if selects(policy, pod) and not pod.finished]
        wide = [
            labels
            for labels in self.labels.values()
            if sum(has(unit, labels) for unit in policy.spec.units) > 1
        ]
        found = {
            "Conflicting": any(selects(other, pod) for other in others for pod in mine),
            "OverCapacity": above,
            "OverlappingUnits": bool(wide),
            "Ready": True,
        }
        return {
            "generation": policy.metadata.generation,
            "units": units,
            "usage": ", ".join(usage),
            "headroom": "unlimited" if None in free else str(sum(free)),
            "True": [name for name, true in found.items() if true],
        }


def pinned(policy, pod):
    """Return the matchLabelKeys that a pod has, with values."""
    labels = pod.metadata.labels
    return {key: labels[key] for key in policy.spec.match_label_keys if key in labels}


def in_nanos(amounts):
    return {name: nanos(amount) for name, amount in amounts.items()}


def newness(pod):
    return pod.terminating, pod.metadata.creation_timestamp, pod.name


def has(unit, labels):
    return from_selector(unit.node_selector).matches(labels)


def selects(policy, pod):
    if policy.namespace != pod.namespace:
        return False
    return from_selector(policy.spec.pod_selector).matches(pod.metadata.labels)


def counts(policy, pod):
    if not selects(policy, pod) or pod.finished:
        return False
    if pod.terminating and policy.spec.match_policy.ignore_terminating_pod:
        return False
    if not policy.spec.match_policy.ignore_previous_pod:
        return True
    scheduled = [
        c.last_transition_time
        for c in pod.status.conditions
        if c.type == "PodScheduled" and c.status == "True"
    ]
    when = (*scheduled, pod.status.start_time, pod.metadata.creation_timestamp)
    bound = next(filter(None, when))
    return parse_rfc3339(bound) >= parse_rfc3339(policy.metadata.creation_timestamp)


def over(unit, pods):
    """Return whether pods are above a cap of a unit."""
    if unit.max_count is not None and len(pods) > unit.max_count:
        return True
    return bool(exceeded(unit, pods))


def exceeded(unit, pods):
    """Return the resources of which pods request more than the cap."""
    return [name for name, left in free_nanos(unit, pods).items() if left < 0]


def used_up(unit, pods):
    """Return whether nothing is left of some resource with a cap."""
    return any(left <= 0 for left in free_nanos(unit, pods).values())


def free_nanos(unit, pods):
    """Return what pods leave of each resource with a cap."""
    return {
        name: nanos(cap) - sum(request_nanos(pod).get(name, 0) for pod in pods)
        for name, cap in unit.max_resources.items()
    }


def requests_above(unit, pods, pod):
    return any(request_nanos(pod).get(name, 0) for name in exceeded(unit, pods))
