"""The rights in deploy/rbac, and a transport that grants nothing else."""

from collections import defaultdict
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import msgspec
import yaml

from holdfast.api.classic_dra.names import KEP_GROUP, OWN_GROUP
from holdfast.client.transport import Response
from holdfast.server.wire.request_info import parse_request_info

RBAC = Path(__file__).parents[1] / "deploy" / "rbac"
ALSO_NEEDED = {
    # Kubernetes 1.36: changing allocation or reservedFor in the status of a claim.
    ("resource.k8s.io", "resourceclaims/status", "patch"): (
        "resource.k8s.io",
        "resourceclaims/binding",
        "patch",
    ),
    # deploy/admission: a Binding with annotations of an allocation.
    ("", "pods/binding", "create"): ("scheduling.holdfast.dev", "podallocations", "write"),
}
"""Rights that the API server checks in addition, for some requests."""


def objects():
    """Return the objects of all files."""
    files = [path.read_text() for path in sorted(RBAC.glob("*.yaml"))]
    return [obj for text in files for obj in yaml.safe_load_all(text)]


@cache
def rights_of_role(name):
    """Return the rights of the ClusterRole and the Role of this name.

    A right is (group, resource, verb); the value contains the names it is limited to, if any.
    """
    found = defaultdict(set)
    for obj in objects():
        if obj["kind"] in ("ClusterRole", "Role") and obj["metadata"]["name"] == name:
            for rule in obj["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        for verb in rule["verbs"]:
                            names = rule.get("resourceNames", ())
                            found[group, resource, verb].update(names)
    return dict(found)


def right_of(request):
    """Return the right that a request needs; None if the path is not that of a resource.

    The kinds of classic DRA have another group on a real cluster.
    """
    info = parse_request_info(request.method, request.path, request.query)
    if not info.is_resource:
        return None
    resource = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
    group = OWN_GROUP if info.group == KEP_GROUP else info.group
    return group, resource, info.verb


class RestrictedTransport:
    """Refuses requests for which a role has no right, as RBAC does; ``refused`` is told."""

    def __init__(self, transport, role, refused):
        self._transport = transport
        self._rights = rights_of_role(role)
        self._refused = refused
        self.used = set()

    async def send(self, request):
        return self._refusal(request) or await self._transport.send(request)

    def stream(self, request):
        refusal = self._refusal(request)
        return nullcontext(_Body(refusal)) if refusal else self._transport.stream(request)

    async def close(self):
        await self._transport.close()

    def _refusal(self, request):
        right = right_of(request)
        if right is None:
            return None
        for needed in (right, ALSO_NEEDED.get(right)):
            if needed is not None and needed not in self._rights:
                self._refused(f"deploy/rbac does not grant {needed} for {request.path}")
                status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
                return Response(403, {}, msgspec.json.encode(status))
        self.used.update({right, ALSO_NEEDED.get(right, right)})
        return None


class _Body:
    """A refusal as the answer to a request for a stream."""

    def __init__(self, response):
        self.status, self.headers, self._body = response.status, response.headers, response.body

    async def __aiter__(self):
        yield self._body
