"""Printers of RBAC, certificates, webhooks, admission policies, APIServices."""

from __future__ import annotations

from holdfast.server.tables.printer import (
    NONE,
    UNSET,
    Obj,
    Printer,
    TableCells,
    age,
    age_text,
    columns,
    condition,
    items,
    name,
    or_else,
    part,
    selector_text,
)


def _binding(obj: Obj, now: float) -> TableCells:
    ref, subjects = part(obj, "roleRef"), items(obj, "subjects")

    def named(kind: str) -> str:
        return ", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind)

    accounts = (
        f"{s.get('namespace', '')}/{s.get('name', '')}"
        for s in subjects
        if s.get("kind") == "ServiceAccount"
    )
    return [
        name(obj),
        f"{ref.get('kind', '')}/{ref.get('name', '')}",
        age(obj, now),
        named("User"),
        named("Group"),
        ", ".join(accounts),
    ]


def _signing_request(obj: Obj, now: float) -> TableCells:
    spec, requested = part(obj, "spec"), part(obj, "spec").get("expirationSeconds")
    return [
        name(obj),
        age(obj, now),
        or_else(spec.get("signerName"), NONE),
        spec.get("username", ""),
        NONE if requested is None else age_text(requested),
        _signing_state(obj),
    ]


def _signing_state(obj: Obj) -> str:
    kinds = {c.get("type") for c in items(obj, "status", "conditions")}
    states = ["Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"]
    if "Failed" in kinds:
        states.append("Failed")
    if part(obj, "status").get("certificate"):
        states.append("Issued")
    return ",".join(states)


def _webhooks(obj: Obj, now: float) -> TableCells:
    return [name(obj), len(items(obj, "webhooks")), age(obj, now)]


def _policy(obj: Obj, now: float) -> TableCells:
    rules = items(obj, "spec", "validations") or items(obj, "spec", "mutations")
    kind = part(obj, "spec", "paramKind")
    param_text = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
    return [name(obj), len(rules), param_text, age(obj, now)]


def _policy_binding(obj: Obj, now: float) -> TableCells:
    ref = part(obj, "spec", "paramRef")
    param_text = UNSET
    if ref.get("name"):
        param_text = f"{ref.get('namespace') or '*'}/{ref['name']}"
    elif ref.get("selector"):
        param_text = selector_text(ref["selector"])
    return [name(obj), part(obj, "spec").get("policyName", ""), param_text, age(obj, now)]


def _api_service(obj: Obj, now: float) -> TableCells:
    service, state = part(obj, "spec", "service"), condition(obj, "Available")
    available = state.get("status") or "Unknown"
    if state and available != "True" and state.get("reason"):
        available = f"{available} ({state['reason']})"
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    return [name(obj), where, available, age(obj, now)]


ROLE_BINDING = Printer(
    columns("Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts"), _binding
)
WEBHOOKS = Printer(columns("Name", "Webhooks:integer", "Age"), _webhooks)
POLICY_BINDING = Printer(columns("Name", "PolicyName", "ParamRef", "Age"), _policy_binding)
SIGNING_REQUEST = Printer(
    columns("Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"),
    _signing_request,
)
VALIDATING_POLICY = Printer(columns("Name", "Validations:integer", "ParamKind", "Age"), _policy)
MUTATING_POLICY = Printer(columns("Name", "Mutations:integer", "ParamKind", "Age"), _policy)
API_SERVICE = Printer(columns("Name", "Service", "Available", "Age"), _api_service)
