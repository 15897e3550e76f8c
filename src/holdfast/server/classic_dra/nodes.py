"""What a node may do with classic claims and with its NodeInventories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from holdfast.api.classic_dra.claims import classic_entries
from holdfast.api.classic_dra.names import KEP_GROUP, OWN_GROUP, POD_CLAIMS
from holdfast.api.decode import JsonMapping, JsonObject, convert_object
from holdfast.api.json_fields import map_at, maps_at
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.runtime.errors import BadRequest
from holdfast.server.added_group import NodeAccess, NodeObject
from holdfast.server.wire.request_info import RequestInfo

_CLAIMS = f"resourceclaims.{KEP_GROUP}"


def _references(pod: JsonMapping) -> Iterator[tuple[str, str]]:
    """Yield the pod's classic claims, those that are created for it included."""
    entries = maps_at(map_at(pod, "spec"), "resourceClaims")
    annotations = map_at(map_at(pod, "metadata"), "annotations")
    if POD_CLAIMS in annotations or any("claim" in entry for entry in entries):
        with suppress(BadRequest, InvalidEntries, msgspec.ValidationError):
            for entry in classic_entries(convert_object(dict(pod), Pod)):
                yield _CLAIMS, entry.claim_name


def _inventory_refusal(node: str, info: RequestInfo) -> str | None:
    if info.verb not in ("get", "create", "update", "patch"):
        return "can only get, create, update, or patch a NodeInventory"
    if info.subresource:
        return "cannot write NodeInventory subresources"
    if info.verb != "create" and info.name != node:
        return "can only access NodeInventory with the same name as the requesting node"
    return None  # admission checks the content of a write


def _wrong_inventory(node: str, new: JsonObject) -> str:
    if (new["metadata"].get("name"), map_at(new, "spec").get("nodeName")) != (node, node):
        return "can only access NodeInventory with the same name as the requesting node"
    return ""


NODES = NodeAccess(
    referenced={(KEP_GROUP, "resourceclaims"): _CLAIMS},
    references=_references,
    annotations=(POD_CLAIMS,),
    objects={(OWN_GROUP, "nodeinventories"): NodeObject(_inventory_refusal, _wrong_inventory)},
)
