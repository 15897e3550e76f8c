"""Build a world from the reservations and node states of Koordinator's test tables."""

from collections import Counter

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.reservation import Reservation
from holdfast.scheduling.engine.plugin_results import run_pre_filter
from holdfast.scheduling.engine.plugin_use import PluginUse
from holdfast.scheduling.framework.plugin import PodChange
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.reservation import ReservationPlugin as Plugin
from holdfast.scheduling.plugins.reservation.diagnosis import NodeCounts, summary
from holdfast.state.reservations.matching import RefusalReason
from parity.scheduling import Asked, node, pod

PREFIX = "scheduling.koordinator.sh"
AFFINITY = f"{PREFIX}/reservation-affinity"
ALLOCATED = f"{PREFIX}/reservation-allocated"
ANY_OWNER = [{"labelSelector": {}}]
COUNTERS = {
    "nameUnmatched": RefusalReason.NAME, "affinityUnmatched": RefusalReason.AFFINITY,
    "isUnschedulableUnmatched": RefusalReason.UNSCHEDULABLE, "notExactMatched": RefusalReason.EXACT,
    "taintsUnmatched": RefusalReason.TAINT,
}  # fmt: skip


def reservation(raw, *, owners=None, where=None, allocatable=None):
    """Return a reservation of a Go test, completed by what the code around the table sets."""
    spec, status = dict(raw.get("spec") or {}), dict(raw.get("status") or {})
    if owners is not None:
        spec["owners"] = owners
    if where is not None:
        status = {"allocatable": allocatable or {}, **status, "phase": "Available"}
        status["nodeName"] = where
    meta = {"uid": f"uid-{raw['metadata']['name']}", **raw["metadata"]}
    return convert_object({**raw, "metadata": meta, "spec": spec, "status": status}, Reservation)


def a_user(name, where, requests, offer=None):
    """A pod on a node, which draws on an offer if there is one."""
    notes = {}
    if offer is not None:
        drawn = {"name": offer.name, "uid": offer.uid}
        notes = {ALLOCATED: msgspec.json.encode(drawn).decode()}
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": notes}
    container = {"name": "c", "resources": {"requests": requests}}
    return pod({"metadata": meta, "spec": {"nodeName": where, "containers": [container]}})


def asking_for(raw, requests):
    """Add requests to a pod or a reservation's template, which has none in Go's table."""
    containers = [{"name": "c", "resources": {"requests": requests}}]
    return {**raw, "spec": {**(raw.get("spec") or {}), "containers": containers}}


def amounts(resource):
    """Return Go's aggregated framework.Resource as requests."""
    found = {"cpu": f"{resource['milliCPU']}m"} if resource.get("milliCPU") else {}
    if resource.get("memory"):
        found["memory"] = str(resource["memory"])
    return found | {name: str(n) for name, n in (resource.get("scalarResources") or {}).items()}


class Account:
    """One node with pods and reservations that add up to the sums in Go's test table.

    In Go ``podRequested`` counts every pod and reserve pod, and ``rAllocated`` the owners again.
    If a table gives an owner's usage only as what its preemption frees, that is its usage.
    """

    def __init__(self, raw_node, state):
        self.world = World()
        self.name = raw_node["metadata"]["name"]
        self.world.upsert(node(raw_node))
        here = (state.get("nodeReservationStates") or {}).get(self.name, {})
        free_in = (state.get("preemptibleInRRs") or {}).get(self.name, {})
        free = (state.get("preemptible") or {}).get(self.name, {})
        self._gone, self._left = [], {}
        for name, text in amounts(here.get("podRequested") or {}).items():
            self._left[name] = self._units(name, text)
        for name, text in amounts(here.get("rAllocated") or {}).items():
            self._left[name] = self._left.get(name, 0) - self._units(name, text)
        for info in here.get("matchedOrIgnored") or ():
            self._hold(info, free_in)
        self._stand("victim", free, victim=True)
        left = {name: amount for name, amount in self._left.items() if amount > 0}
        self._stand("others", {n: self._text(n, a) for n, a in left.items()})

    def _hold(self, info, free_in):
        offer = reservation(
            info["reservation"], owners=ANY_OWNER, where=self.name, allocatable=info["allocatable"]
        )
        offer = msgspec.structs.replace(
            offer, spec=msgspec.structs.replace(offer.spec, allocate_once=False)
        )
        self.world.upsert(offer)
        for name, text in offer.status.allocatable.items():
            self._left[name] = self._left.get(name, 0) - self._units(name, text)
        leaving = dict(free_in.get(offer.uid) or {})
        users = info.get("assignedPods") or {}
        pods = int(leaving.pop("pods", 0))
        used = {n: self._units(n, t) for n, t in (info.get("allocated") or {}).items()}
        for name, text in leaving.items():
            used[name] = max(0, used.get(name, 0) - self._units(name, text))
        if leaving:
            self._gone.append(self._user("leaving", leaving, offer))
        staying = max(len(users) - pods, 1) if any(used.values()) or users else 0
        for i in range(staying):
            share = used if i == 0 else {}
            texts = {n: self._text(n, a) for n, a in share.items() if a}
            self._user(f"{offer.name}-{i}", texts, offer)

    def _stand(self, name, requests, *, victim=False):
        if requests:
            pod_info = self._user(name, requests)
            if victim:
                self._gone.append(pod_info)
                for resource, text in requests.items():
                    self._left[resource] = self._left.get(resource, 0) - self._units(resource, text)

    def _user(self, name, requests, offer=None):
        self.world.upsert(made := a_user(name, self.name, requests, offer))
        return self.world.nodes.pod(made.uid)[0]

    def _units(self, name, text):
        pod_info = self.world.pod_info(a_user("x", "", {name: text}))
        return dict(pod_info.request).get(self.world.nodes.resources.id(name), 0)

    def _text(self, name, amount):
        return f"{amount}m" if name == "cpu" else str(amount)

    @property
    def change(self):
        """The removal of the preempted pods."""
        return PodChange(removed={self.world.nodes.row_of[self.name]: tuple(self._gone)})


def is_reserve_pod(raw):
    return any(key.endswith("/reserve-pod") for key in raw["metadata"].get("annotations", {}))


def asked_for(uid, raw, world):
    """Prepare the plugin for the reserve pod of a reservation."""
    pod_info, plugin = world.pod_info(pod(raw, uid=uid), is_reserve_pod=True), Plugin()
    return Asked(
        plugin, run_pre_filter(PluginUse(plugin), pod_info, View(world, pod_info, 0.0)), world
    )


def asking(state, raw=None):
    """Return the raw pod to schedule, with the reservation affinity of Go's state."""
    requests = state.get("podRequests") or amounts(state.get("podRequestsResources") or {})
    container = {"name": "c", "resources": {"requests": requests}}
    raw = raw or {"metadata": {}, "spec": {"containers": [container]}}
    if not state.get("hasAffinity"):
        return raw
    wish = {"name": state["reservationName"]} if state.get("reservationName") else {}
    meta = dict(raw["metadata"])
    meta["annotations"] = {AFFINITY: msgspec.json.encode(wish).decode()}
    return {**raw, "metadata": meta}


def summed_up(record):
    given = record.input
    diagnosis = given.get("nodeReservationDiagnosis") or {}
    rows = {name: i for i, name in enumerate(diagnosis)}
    counts = {rows[name]: counts_of(raw) for name, raw in diagnosis.items()}
    statuses = given["filteredNodeStatusMap"]["nodeToStatus"]
    reasons = {rows[name]: s.get("reasons", ()) for name, s in statuses.items() if name in rows}
    return summary(counts, reasons, requires_reservation=given["hasAffinity"])


def counts_of(raw):
    refused = Counter({reason: raw[counter] for counter, reason in COUNTERS.items()})
    taints = Counter(raw.get("taintsUnmatchedReasons") or {})
    return NodeCounts(raw["ownerMatched"], raw["nameMatched"], +refused, taints)
