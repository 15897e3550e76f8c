"""Defaults of RBAC bindings, webhooks, admission policies, network policies and CRDs."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.api.decode import JsonObject
from holdfast.api.defaults.raw_fields import ensure_map, entries, if_present, set_defaults

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


def _binding(raw: JsonObject) -> None:
    set_defaults(ensure_map(raw, "roleRef"), apiGroup=_RBAC)
    for subject in entries(raw, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            set_defaults(subject, apiGroup=_RBAC)


def _network_policy(raw: JsonObject) -> None:
    spec = ensure_map(raw, "spec")
    for rule in entries(spec, "ingress", "egress"):
        for port in entries(rule, "ports"):
            set_defaults(port, protocol="TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _ingress_class(raw: JsonObject) -> None:
    if_present(
        ensure_map(raw, "spec"),
        "parameters",
        lambda parameters: set_defaults(parameters, scope="Cluster"),
    )


def _webhooks(raw: JsonObject) -> None:
    for webhook in entries(raw, "webhooks"):
        set_defaults(webhook, failurePolicy="Fail", timeoutSeconds=10)
        _match(webhook)
        if raw["kind"].startswith("Mutating"):
            set_defaults(webhook, reinvocationPolicy="Never")
        for rule in entries(webhook, "rules"):
            set_defaults(rule, scope="*")
        if_present(
            ensure_map(webhook, "clientConfig"),
            "service",
            lambda service: set_defaults(service, port=443),
        )


def _match(where: JsonObject) -> None:
    set_defaults(where, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for rule in entries(where, "resourceRules", "excludeResourceRules"):
        set_defaults(rule, scope="*")


def _policy(raw: JsonObject) -> None:
    spec = ensure_map(raw, "spec")
    set_defaults(spec, failurePolicy="Fail")
    if_present(spec, "matchConstraints", _match)


def _policy_binding(raw: JsonObject) -> None:
    if_present(ensure_map(raw, "spec"), "matchResources", _match)


def _definition(raw: JsonObject) -> None:
    spec = ensure_map(raw, "spec")
    names = ensure_map(spec, "names")
    kind = names.get("kind") or ""
    set_defaults(names, singular=kind.lower())
    if kind:
        set_defaults(names, listKind=f"{kind}List")
    set_defaults(spec, conversion={"strategy": "None"})
    for version in spec.get("versions") or ():
        set_defaults(version, served=False, storage=False)


BY_KIND: dict[tuple[str, str], Callable[[JsonObject], None]] = {
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
