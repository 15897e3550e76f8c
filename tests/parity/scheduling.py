"""Build a world from upstream's nodes and pods and run one plugin for one pod."""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from holdfast.api.decode import convert_object
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.scheduling.engine.plugin_results import PreFilterOutcome, run_pre_filter
from holdfast.scheduling.engine.plugin_use import PluginUse
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.engine.scoring import score_rows
from holdfast.scheduling.framework.plugin import NO_CHANGE, ClusterEvent, Code, Plugin
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World

SUCCESS = {"code": "Success"}


def node(raw, name=None):
    found = convert_object(raw or {}, Node)
    if name is None:
        return found
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, name=name)
    )


def pod(raw, **metadata):
    found = convert_object(raw or {}, Pod)
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, **metadata)
    )


def world_of(nodes, pods=()):
    """Return a world of typed nodes and raw pods; pods without a uid get one."""
    world = World()
    for one in nodes:
        world.upsert(one)
    for i, raw in enumerate(pods or ()):
        put(world, raw, f"pod-{i}")
    return world


def put(world, raw, uid, node_name=None):
    found = pod(raw, uid=convert_object(raw, Pod).metadata.uid or uid)
    world.nodes.add_pod(world.pod_info(found), node_name or found.spec.node_name)


@dataclass
class Asked:
    """One plugin, prepared for one pod."""

    plugin: Any
    prepared: PreFilterOutcome
    world: World

    @property
    def prefilter(self) -> dict[str, Any]:
        """The status of PreFilter."""
        found = self.prepared
        if found.reject is not None:
            return status(found.reject.code, found.reject.reasons)
        return SUCCESS if found.filters else {"code": "Skip"}

    @property
    def prescore_skips(self) -> bool:
        return not self.prepared.scores

    @property
    def narrowed_to(self) -> set[str] | None:
        rows = self.prepared.allowed_rows
        return None if rows is None else {self.world.nodes.names[row] for row in rows}

    def filter(self, node_name, change=NO_CHANGE):
        """The status of Filter on one node."""
        if self.prepared.reject is not None:
            return self.prefilter
        row = self.world.nodes.row_of[node_name]
        if not self.prepared.filters:
            return SUCCESS
        if self.prepared.allowed_rows is not None and row not in self.prepared.allowed_rows:
            return {"code": "UnschedulableAndUnresolvable"}
        plan = self.prepared.plan
        verdict = int(plan.filter(np.array([row]), change)[0])
        words = plan.reasons(row, change) if verdict else ()
        return status(Code(verdict), words)

    def scores(self, *, normalized):
        """Return the scores of all nodes by name."""
        nodes = self.world.nodes
        if self.prescore_skips:
            return dict.fromkeys(nodes.row_of, 0)
        rows = nodes.rows
        (score,) = score_rows(Profile("p", (self.plugin,)), [self.prepared], rows)
        found = score.normalized if normalized else score.raw
        return {nodes.names[row]: int(found[i]) for i, row in enumerate(rows)}


def status(code, reasons=()):
    found = {"code": code.upstream_name}
    if reasons:
        found["reasons"] = list(reasons)
    return found


def asked(plugin, raw_pod, world, now=0.0):
    """Prepare a plugin for a pod."""
    assert overrides(plugin, Plugin.pre_filter)
    pod_info = world.pod_info(pod(raw_pod, uid="incoming"))
    return Asked(
        plugin, run_pre_filter(PluginUse(plugin), pod_info, View(world, pod_info, now)), world
    )


def by_name(scores):
    return {entry["name"]: entry["score"] for entry in scores}


def event_of(record):
    about_node = "NodeChange" in record.test
    read, suffix = (node, "Node") if about_node else (pod, "Pod")
    old, new = (
        None if record.input.get(f"{age}{suffix}") is None else read(record.input[f"{age}{suffix}"])
        for age in ("old", "new")
    )
    action = "Add" if old is None else "Delete" if new is None else f"Update{suffix}Label"
    return ClusterEvent("Node" if about_node else "AssignedPod", action, old, new)
