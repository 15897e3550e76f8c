"""Defaults of access rules, webhooks, network rules and definitions of custom resources."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.api.defaults.filling import Raw, entries, fill, if_present, part

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


def _binding(raw: Raw) -> None:
    fill(part(raw, "roleRef"), apiGroup=_RBAC)
    for subject in entries(raw, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup=_RBAC)


def _network_policy(raw: Raw) -> None:
    spec = part(raw, "spec")
    for rule in entries(spec, "ingress", "egress"):
        for port in entries(rule, "ports"):
            fill(port, protocol="TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _ingress_class(raw: Raw) -> None:
    if_present(part(raw, "spec"), "parameters", lambda found: fill(found, scope="Cluster"))


def _webhooks(raw: Raw) -> None:
    for webhook in entries(raw, "webhooks"):
        fill(webhook, failurePolicy="Fail", timeoutSeconds=10)
        _match(webhook)
        if raw["kind"].startswith("Mutating"):
            fill(webhook, reinvocationPolicy="Never")
        for rule in entries(webhook, "rules"):
            fill(rule, scope="*")
        if_present(
            part(webhook, "clientConfig"), "service", lambda service: fill(service, port=443)
        )


def _match(where: Raw) -> None:
    fill(where, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for rule in entries(where, "resourceRules", "excludeResourceRules"):
        fill(rule, scope="*")


def _policy(raw: Raw) -> None:
    spec = part(raw, "spec")
    fill(spec, failurePolicy="Fail")
    if_present(spec, "matchConstraints", _match)


def _policy_binding(raw: Raw) -> None:
    if_present(part(raw, "spec"), "matchResources", _match)


def _definition(raw: Raw) -> None:
    spec = part(raw, "spec")
    names = part(spec, "names")
    kind = names.get("kind") or ""
    fill(names, singular=kind.lower())
    if kind:
        fill(names, listKind=f"{kind}List")
    fill(spec, conversion={"strategy": "None"})
    for version in spec.get("versions") or ():
        fill(version, served=False, storage=False)


BY_KIND: dict[tuple[str, str], Callable[[Raw], None]] = {
    (_RBAC, "RoleBinding"): _binding,
    (_RBAC, "ClusterRoleBinding"): _binding,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("networking.k8s.io", "IngressClass"): _ingress_class,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _webhooks,
    (_ADMISSION, "MutatingWebhookConfiguration"): _webhooks,
    (_ADMISSION, "ValidatingAdmissionPolicy"): _policy,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _policy_binding,
    (_ADMISSION, "MutatingAdmissionPolicy"): _policy,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): _policy_binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
