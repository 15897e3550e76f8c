"""Give users ClusterRoles, in one namespace or in all."""

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
TENANT = {"impersonate-user": "tenant"}
"""Headers of a user to whom the tests grant roles."""


async def create_role(api, name, *rules):
    """Create a ClusterRole; a rule is (group, resources, verbs)."""
    listed = [{"apiGroups": [g], "resources": r, "verbs": v} for g, r, v in rules]
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": listed})


async def grant(api, role, namespace="default", user="tenant"):
    """Bind a ClusterRole to a user in a namespace."""
    await api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", _binding(role, user))


async def grant_in_every_namespace(api, role, user="tenant"):
    """Bind a ClusterRole to a user in all namespaces."""
    await api.create(f"{RBAC}/clusterrolebindings", _binding(role, user))


def _binding(role, user):
    name = f"{user}-{role}".replace(":", "-")
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }
