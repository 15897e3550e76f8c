"""The devices that Holdfast would allocate for a pod on each feasible node."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.devices import Allocation, ResourceClaim
from holdfast.cli.objects import Manifest
from holdfast.cli.snapshot import built_in_profiles, read_snapshot
from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.reading import read
from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.state.devices.allocated_devices import allocated_results
from real.differential.families import Case

NOW = 1.8e9
PLUGIN = "DynamicResources"
Answer = dict[str, Any]


def add_allocations(case: Case, answer: Answer) -> None:
    """Add what ``reserve`` would allocate to the feasible nodes of our answer."""
    if not answer.get("schedulable") or not any(o["kind"] == "ResourceSlice" for o in case.objects):
        return
    documents = (Manifest("", msgspec.json.encode(obj)) for obj in case.objects)
    snapshot = read_snapshot(documents, case.pod)
    profiles = built_in_profiles()
    if case.config is not None:
        profiles = read(case.config, Catalog(load_user_code=False)).profiles
    profile = profiles["default-scheduler"]
    pod = snapshot.world.pod_info(snapshot.pod)
    found = feasible(profile, profile.view(pod, snapshot.world, NOW))
    assert not isinstance(found, Rejection), case.pod
    plan: Any = found.plans.get(PLUGIN)
    for node in answer["nodes"]:
        if plan is None or not node["feasible"]:
            continue
        row = snapshot.world.nodes.row_of[node["name"]]
        placement = Placement(pod, row, node["name"], dict(found.plans))
        assert plan.reserve(placement) is None
        claims: list[ResourceClaim] = list(plan.writes.in_flight)
        plan.unreserve(placement)
        named = {claim.uid for claim in plan.claims}
        node["allocations"] = {
            claim.name: plain(claim.status.allocation) for claim in claims if claim.uid in named
        }
        node["devices"] = sorted(
            f"{result.driver}/{result.pool}/{result.device}"
            for claim in claims
            for result in allocated_results(claim)
            if result.share_id is None
        )


def plain(allocation: Allocation | Answer | None) -> Allocation:
    """Return an allocation without what differs in every run: shares and the time."""
    read = msgspec.convert(allocation, Allocation) if isinstance(allocation, dict) else allocation
    assert read is not None
    results = tuple(
        msgspec.structs.replace(result, share_id="" if result.share_id is not None else None)
        for result in read.devices.results
    )
    devices = msgspec.structs.replace(read.devices, results=results)
    return msgspec.structs.replace(read, devices=devices, allocation_timestamp=None)
