"""Authorize the requests of nodes, for objects that their pods refer to and for their own objects.

Writes are checked again when their content is known (``kinds.admission.node_restriction``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from holdfast.api import fields
from holdfast.api.node_names import LEASE_NAMESPACE
from holdfast.runtime.errors import BadRequest
from holdfast.server.access.bootstrap_roles import NODE_RULES
from holdfast.server.access.node_graph import NodeGraph
from holdfast.server.access.rbac import rule_allows
from holdfast.server.added_groups import ADDED_GROUPS
from holdfast.server.store import Store
from holdfast.server.wire.request_info import RequestInfo

_READ = ("get", "list", "watch")
_POD_WRITES = frozenset(
    {
        ("", "create"),
        ("", "delete"),
        ("status", "update"),
        ("status", "patch"),
        ("eviction", "create"),
    }
)
_NODE_WRITES = frozenset(
    {("", "create"), ("", "update"), ("", "patch"), ("status", "update"), ("status", "patch")}
)
_OWN_OBJECT = ("get", "create", "update", "patch", "delete")
_ALLOWED = None
_Rule = Callable[[str, RequestInfo], str | None]
"""Return None if a node may make a request, else upstream's reason, which may be empty."""


class NodeAuthorizer:
    """Decides on the requests of the users ``system:node:NAME`` of the group ``system:nodes``."""

    def __init__(self, store: Store) -> None:
        self._graph = NodeGraph(store)
        self._rules: dict[tuple[str, str], _Rule] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._volume_claim,
            ("", "persistentvolumes"): self._get,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("topology.node.k8s.io", "noderesourcetopologies"): _own_object("NodeResourceTopology"),
            ("scheduling.koordinator.sh", "devices"): _own_object("Device"),
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("", "serviceaccounts"): self._service_account,
            ("coordination.k8s.io", "leases"): _lease,
            ("storage.k8s.io", "csinodes"): _own_object("CSINode"),
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("", "nodes"): _node,
            ("", "pods"): self._pod,
            ("certificates.k8s.io", "podcertificaterequests"): lambda node, info: "",
        }
        for added in ADDED_GROUPS:
            for resource, name in added.nodes.referenced.items():
                self._rules[resource] = partial(self._get, plural=name)
            for resource, own in added.nodes.objects.items():
                self._rules[resource] = own.refusal

    def refusal(self, node: str, info: RequestInfo) -> str | None:
        """Return None if a node may make a request, else upstream's reason, which may be empty."""
        if not node:
            return 'unknown node for user "system:node:"'
        rule = self._rules.get((info.group, info.plural))
        if rule is not None:
            return rule(node, info)
        return _ALLOWED if any(rule_allows(rule, info) for rule in NODE_RULES) else ""

    def _related(self, node: str, info: RequestInfo, plural: str = "") -> str | None:
        if not info.name:
            return "No Object name found"
        if self._graph.relates(node, plural or info.plural, info.namespace, info.name):
            return _ALLOWED
        return f"no relationship found between node '{node}' and this object"

    def _read(self, node: str, info: RequestInfo) -> str | None:
        if info.verb not in _READ:
            return "can only read resources of this type"
        if info.subresource:
            return "cannot read subresource"
        if not info.namespace:
            return "can only read namespaced object of this type"
        return self._related(node, info)

    def _get(self, node: str, info: RequestInfo, plural: str = "") -> str | None:
        if info.verb != "get":
            return "can only get individual resources of this type"
        if info.subresource:
            return "cannot get subresource"
        return self._related(node, info, plural)

    def _volume_claim(self, node: str, info: RequestInfo) -> str | None:
        if info.subresource != "status":
            return self._get(node, info)
        if info.verb not in ("update", "patch"):
            return "can only get/update/patch this type"
        return self._related(node, info)

    def _service_account(self, node: str, info: RequestInfo) -> str | None:
        if info.verb == "get" and not info.subresource:
            return self._read(node, info)
        if info.verb != "create" or not info.name:
            return "can only create tokens for individual service accounts"
        if info.subresource != "token":
            return "can only create token subresource of serviceaccount"
        return self._related(node, info)

    def _slice(self, node: str, info: RequestInfo) -> str | None:
        if info.subresource:
            return "cannot authorize ResourceSlice subresources"
        if info.verb in ("get", "update", "patch", "delete"):
            return self._related(node, info)
        if info.verb not in ("create", "list", "watch", "deletecollection"):
            return (
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, "
                "create, update, patch, delete, deletecollection"
            )
        if info.verb == "create" or _selects(info, node):  # admission checks a new slice
            return _ALLOWED
        return "can only list/watch/deletecollection resourceslices with nodeName field selector"

    def _pod(self, node: str, info: RequestInfo) -> str | None:
        if (info.subresource, info.verb) in _POD_WRITES:
            return _ALLOWED  # admission compares the node of the pod
        if info.subresource or info.verb not in _READ:
            return ""
        if info.verb != "get" and _selects(info, node):
            return _ALLOWED
        if info.verb == "get" or info.name:
            return self._related(node, info)
        return "can only list/watch pods with spec.nodeName field selector"


def _selects(info: RequestInfo, node: str) -> bool:
    """Return whether only objects of the node are selected by ``spec.nodeName``."""
    try:
        required = fields.parse(info.field_selector).requirements
    except BadRequest:
        return False
    return fields.FieldRequirement("spec.nodeName", node) in required


def _node(node: str, info: RequestInfo) -> str | None:
    if (info.subresource, info.verb) in _NODE_WRITES:
        return _ALLOWED  # admission compares the name
    if info.subresource or info.verb not in _READ:
        return ""
    if info.name == node:
        return _ALLOWED
    which = f"'{info.name}'" if info.name else "all nodes"
    return f"node '{node}' cannot read {which}, only its own Node object"


def _lease(node: str, info: RequestInfo) -> str | None:
    if info.verb not in _OWN_OBJECT:
        return "can only get, create, update, patch, or delete a node lease"
    if info.namespace != LEASE_NAMESPACE:
        return f'can only access leases in the "{LEASE_NAMESPACE}" system namespace'
    if info.verb != "create" and info.name != node:
        return "can only access node lease with the same name as the requesting node"
    return _ALLOWED


def _own_object(kind: str) -> _Rule:
    """Return the rule of a kind that has one object per node, with the name of the node."""

    def decide(node: str, info: RequestInfo) -> str | None:
        if info.verb not in _OWN_OBJECT:
            return f"can only get, create, update, patch, or delete a {kind}"
        if info.subresource:
            return f"cannot authorize {kind} subresources"
        if info.verb != "create" and info.name != node:
            return f"can only access {kind} with the same name as the requesting node"
        return _ALLOWED

    return decide
