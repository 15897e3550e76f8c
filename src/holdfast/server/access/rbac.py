"""RBAC: match requests against the rules of roles and bindings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.server.user import User
from holdfast.server.wire.request_info import RequestInfo

PolicyRule = Mapping[str, Any]
GROUP = "rbac.authorization.k8s.io"
_CACHED = 10_000
"""How many decisions are kept."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Rules and the namespace they apply to; empty means all namespaces."""

    namespace: str
    rules: tuple[PolicyRule, ...]


def rule_allows(rule: PolicyRule, request_info: RequestInfo) -> bool:
    """Return whether a rule allows a request.

    >>> pods = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    >>> rule_allows(pods, RequestInfo("get", "", plural="pods"))
    True
    >>> rule_allows(pods, RequestInfo("get", "", plural="pods", subresource="log"))
    False
    """
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and request_info.verb not in verbs:
        return False
    if not request_info.is_resource:
        return any(
            _path_matches(url, request_info.path) for url in rule.get("nonResourceURLs") or ()
        )
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and request_info.group not in groups:
        return False
    if not any(_resource_matches(r, request_info) for r in rule.get("resources") or ()):
        return False
    names = rule.get("resourceNames") or ()
    return not names or request_info.name in names


def _path_matches(url: str, path: str) -> bool:
    if url.endswith("*"):
        return path.startswith(url[:-1])
    return url == path


def _resource_matches(pattern: str, request_info: RequestInfo) -> bool:
    if pattern == "*":
        return True
    if not request_info.subresource:
        return pattern == request_info.plural
    return pattern in (
        f"{request_info.plural}/{request_info.subresource}",
        f"*/{request_info.subresource}",
    )


@dataclass(slots=True)
class RoleIndex:
    """All grants, by subject."""

    grants: dict[tuple[str, str], list[Grant]] = field(default_factory=dict)
    rules: Mapping[tuple[str, str], tuple[PolicyRule, ...]] = field(default_factory=dict)
    """The rules of each role, by namespace (empty for cluster roles) and name."""
    _allowed_everywhere: dict[tuple[Any, ...], bool] = field(default_factory=dict)
    """Cached answers to whether a user may do something to all objects of a resource in all
    namespaces: components repeat the same requests."""

    @classmethod
    def build(
        cls,
        roles: Iterable[Mapping[str, Any]],
        bindings: Iterable[Mapping[str, Any]],
    ) -> RoleIndex:
        """Index (Cluster)Roles by the subjects of (Cluster)RoleBindings."""
        rules = _rules_by_role(roles)
        index = cls(rules=rules)
        for binding in bindings:
            namespace = binding.get("metadata", {}).get("namespace", "")
            key = role_key(binding.get("roleRef") or {}, namespace)
            grant = Grant(namespace, rules.get(key, ()) if key else ())
            for subject in binding.get("subjects") or ():
                index.grants.setdefault(_subject_key(subject, namespace), []).append(grant)
        return index

    def grants_of(self, user: User) -> Iterable[Grant]:
        """Yield the grants of a user, by name and by group."""
        yield from self.grants.get(("User", user.name), ())
        for group in user.groups:
            yield from self.grants.get(("Group", group), ())

    def allows(self, user: User, request_info: RequestInfo) -> bool:
        """Return whether a rule of the user allows a request."""
        verb, group, plural = request_info.verb, request_info.group, request_info.plural
        key = (user.name, user.groups, verb, group, plural, request_info.subresource)
        everywhere = self._allowed_everywhere.get(key) if plural else False
        if everywhere is None:
            if len(self._allowed_everywhere) >= _CACHED:
                self._allowed_everywhere.clear()
            everywhere = any(
                not rule.get("resourceNames") and rule_allows(rule, request_info)
                for grant in self.grants_of(user)
                if not grant.namespace
                for rule in grant.rules
            )
            self._allowed_everywhere[key] = everywhere
        return everywhere or any(
            rule_allows(rule, request_info)
            for grant in self.grants_of(user)
            if not grant.namespace or grant.namespace == request_info.namespace
            for rule in grant.rules
        )


def role_key(ref: Mapping[str, Any], namespace: str) -> tuple[str, str] | None:
    """Return the key in ``RoleIndex.rules`` of the role that a binding refers to.

    ``namespace`` is that of the binding. None if a ClusterRoleBinding refers to a Role.
    """
    if ref.get("kind") == "ClusterRole":
        return "", str(ref.get("name"))
    return (namespace, str(ref.get("name"))) if namespace else None


def _subject_key(subject: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return kind, name


def _rules_by_role(
    roles: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str], tuple[PolicyRule, ...]]:
    all_roles = list(roles)
    rules = {}
    for role in all_roles:
        meta = role["metadata"]
        rules_of_role = tuple(role.get("rules") or ())
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        for other in all_roles if selectors else ():
            if not other["metadata"].get("namespace") and _selected(other, selectors):
                rules_of_role += tuple(other.get("rules") or ())
        rules[(meta.get("namespace", ""), meta["name"])] = rules_of_role
    return rules


def _selected(role: Mapping[str, Any], selectors: Iterable[Mapping[str, Any]]) -> bool:
    labels = role["metadata"].get("labels") or {}
    return any(
        all(labels.get(k) == v for k, v in (s.get("matchLabels") or {}).items())
        for s in selectors
        if s.get("matchLabels")
    )


def forbidden_message(user: User, request_info: RequestInfo, reason: str = "") -> str:
    """Return upstream's message for a request that is not allowed."""
    message = _forbidden(user, request_info)
    return f"{message}: {reason}" if reason else message


def _forbidden(user: User, request_info: RequestInfo) -> str:
    if not request_info.is_resource:
        return (
            f'forbidden: User "{user.name}" cannot {request_info.verb} path "{request_info.path}"'
        )
    resource = (
        f"{request_info.plural}/{request_info.subresource}"
        if request_info.subresource
        else request_info.plural
    )
    qualified = (
        f"{request_info.plural}.{request_info.group}" if request_info.group else request_info.plural
    )
    subject = f'{qualified} "{request_info.name}"' if request_info.name else qualified
    scope = (
        f'in the namespace "{request_info.namespace}"'
        if request_info.namespace
        else "at the cluster scope"
    )
    return (
        f'{subject} is forbidden: User "{user.name}" cannot {request_info.verb} '
        f'resource "{resource}" in API group "{request_info.group}" {scope}'
    )
