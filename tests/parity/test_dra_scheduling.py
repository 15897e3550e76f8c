"""The DynamicResources plugin at all extension points, as in upstream's TestPlugin."""

import copy
import json
import re
from contextlib import suppress
from types import SimpleNamespace

import numpy as np

from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.api.timestamps import parse_rfc3339
from holdfast.runtime.errors import HoldfastError, Unavailable
from holdfast.scheduling.framework.plugin import Code, Placement, Reject, Skip
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.dynamic_resources import DynamicResources
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.features import Features
from holdfast.state.devices.inventory import Inventory
from holdfast.testing.builders import typed
from holdfast.testing.memory_api import MemoryApi
from parity.harness import parity


def world_of(case):
    on = {gate for gate, enabled in (case["features"] or {}).items() if enabled}
    features = Features(
        admin_access="enableDRAAdminAccess" in on,
        prioritized_list="enableDRAPrioritizedList" in on,
        device_taints="enableDRADeviceTaints" in on,
        binding_conditions="enableDRADeviceBindingConditions" in on,
    )
    nodes = NodeTable()
    world = World(nodes, devices=Inventory(nodes, features))
    for raw in (*(case["nodes"] or ()), *(case["classes"] or ()), *(case["objs"] or ())):
        if raw["kind"] in ("Node", "DeviceClass", "ResourceSlice"):
            world.upsert(typed(raw))
    for raw in case["inFlightClaims"] or ():
        world.devices.claims.add_in_flight(typed(raw, uid="in-flight"))
    return world


class Walk:
    """One record, step by step."""

    def __init__(self, record):
        case = record.input
        self.record = record
        self.world = world_of(case)
        self.api = MemoryApi(self.world, self.fail)
        for raw in case["claims"] or ():
            self.api.put(raw)
        for raw in case["objs"] or ():
            if raw["kind"] == "Pod":
                self.api.put(raw)
        self.plugin = DynamicResources((case["args"] or {}) | {"preemptDevices": False})
        self.pod = self.world.pod_info(convert_object(case["pod"], Pod))
        now = parse_rfc3339(record.raw.get("recordedAt") or "2026-01-01T00:00:00Z")
        self.view = View(self.world, self.pod, now)
        self.api.now = now
        self.plan = None
        self.skipped = False
        self.placement = None
        self.scores = []

    def fail(self, call):
        if self.record.input["failPatch"] and call.verb == "patch" and "/pods/" in call.path:
            return Unavailable("patch error")
        if self.record.input["numClientReactors"] and call.verb == "create":
            return Unavailable("claim creation errors")
        return None

    def step(self, name):
        point, _, node = name.partition("/")
        if self.skipped:
            return "Success", ()
        if point.startswith("unreserve"):
            return self.unreserve()
        return getattr(self, point.lower())(*([node] if node else []))

    def preenqueue(self):
        return status(self.plugin.pre_enqueue(self.pod, self.view))

    def prefilter(self):
        answer = self.plugin.pre_filter(self.pod, self.view)
        self.skipped = isinstance(answer, Skip)
        if self.skipped:
            return "Skip", ()
        if isinstance(answer, Reject):
            return status(answer)
        self.plan = answer
        return status(None)

    def filter(self, node):
        row = self.world.nodes.row_of[node]
        code = Code(int(self.plan.filter(np.array([row]))[0]))
        return code.upstream_name, self.plan.reasons(row) if code else ()

    def score(self, node):
        row = self.world.nodes.row_of[node]
        self.scores.append(float(self.plan.score(np.array([row]))[0]))
        return status(None)

    def normalizescore(self):
        raw = np.array(self.scores)
        self.scores = self.plan.normalize_score(np.arange(len(raw)), raw).tolist()
        return status(None)

    def reserve(self):
        node = self.record.observed["selectedNode"]
        self.placement = Placement(self.pod, self.world.nodes.row_of[node], node, {})
        return status(self.plan.reserve(self.placement))

    def prebind(self):
        try:
            self.api.drive(self.plan.pre_bind(self.placement))
        except HoldfastError as failure:
            return "Error", (str(failure),)
        return status(None)

    def unreserve(self):
        with suppress(HoldfastError):  # The scheduler logs it.
            self.api.drive(self.plan.undo_pre_bind(self.placement))
        self.plan.unreserve(self.placement)
        return status(None)

    def claims_in_flight(self):
        """The uids of the claims whose devices this attempt has allocated in flight."""
        writes = self.plan and self.plan.writes
        return {c.uid for c in writes.in_flight} if writes else ()

    def postfilter(self):
        rejection = SimpleNamespace(plans={self.plugin.name: self.plan})
        effect = self.plugin.post_filter(rejection, self.view)
        for call in effect.calls:
            self.api.carry_out(call)
        return effect.code.upstream_name, (effect.message,)


def status(refusal):
    return ("Success", ()) if refusal is None else (refusal.code.upstream_name, refusal.reasons)


def stored(claim):
    """Return a claim without the fields that upstream's comparison ignores."""
    claim = copy.deepcopy(claim)
    for field in ("uid", "resourceVersion"):
        claim["metadata"].pop(field, None)
    allocation = (claim.get("status") or {}).get("allocation")
    if allocation:
        if "allocationTimestamp" in allocation:
            allocation["allocationTimestamp"] = "<ANY>"
        for result in allocation["devices"].get("results") or ():
            result.pop("device")
            result.pop("shareID", None)
    claim["status"] = {
        field: value for field, value in (claim.get("status") or {}).items() if value
    }
    return json.dumps(claim, sort_keys=True)


def same_names(text):
    return re.sub(r"extended-resources-\d+", "extended-resources-0", text)


@parity("dynamicresources_plugin.jsonl", "TestPlugin")
def test_every_point(record):
    walk = Walk(record)
    timestamps = "enableDRADeviceBindingConditions" in (record.input["features"] or {})
    claims = sorted(stored(c) for c in record.input["claims"] or ())
    observed = iter(record.observed["steps"])
    for wanted in record.expected["steps"]:
        if wanted["step"] == "externalUpdate":
            [before] = walk.api.of_kind("ResourceClaim")
            meta = wanted["object"]["metadata"] | {"uid": before["metadata"]["uid"]}
            walk.api.put(wanted["object"] | {"metadata": meta})
            claims = [stored(wanted["object"])]
            continue
        code, reasons = walk.step(wanted["step"])
        told = next(observed)["status"]
        assert (code, list(reasons)) == (told["code"], told.get("reasons") or []), wanted["step"]
        if "claims" in wanted:
            claims = sorted(same_names(stored(c)) for c in wanted["claims"] or ())
        got = sorted(same_names(stored(c)) for c in walk.api.of_kind("ResourceClaim"))
        if not timestamps:
            got = [text.replace('"allocationTimestamp": "<ANY>", ', "") for text in got]
        assert got == claims, wanted["step"]
        if "pod" in wanted:
            got = [pod.get("status") or {} for pod in walk.api.of_kind("Pod")]
            assert json.loads(same_names(json.dumps(got))) == [wanted["pod"].get("status") or {}]
        if code == "Success":
            held = walk.world.devices.claims
            uids = {"in-flight", *walk.claims_in_flight()}
            in_flight = [uid for uid in uids if held.in_flight(uid) is not None]
            assert len(in_flight) == len(wanted.get("inFlightClaims") or ()), wanted["step"]
    if record.expected.get("normalizedScores") and not walk.skipped:
        assert walk.scores == [entry["score"] for entry in record.expected["normalizedScores"]]
