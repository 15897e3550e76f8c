"""The kinds of ``admissionregistration.k8s.io``: webhooks and admission policies."""

from __future__ import annotations

from holdfast.server.descriptor import KindDescriptor, untyped_resource
from holdfast.server.kinds.printers import access
from holdfast.server.tables.printer import Printer
from holdfast.server.unimplemented_features import UnimplementedFeatures


def _kind(
    plural: str, kind: str, printer: Printer, warning: str, parts: tuple[str, ...] = ()
) -> KindDescriptor:
    group, extensions = "admissionregistration.k8s.io", ("api-extensions",)
    return KindDescriptor(
        untyped_resource(group, plural, kind, namespaced=False, categories=extensions, parts=parts),
        printer=printer,
        has_generation=True,
        requires_resource_version=True,
        unimplemented=UnimplementedFeatures(warning),
    )


KINDS = (
    _kind(
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        access.MUTATING_POLICY,
        "MutatingAdmissionPolicies are stored but not evaluated: no object is changed by one",
    ),
    _kind(
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
        access.POLICY_BINDING,
        "MutatingAdmissionPolicyBindings are stored, but no admission policy is evaluated",
    ),
    _kind(
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        access.WEBHOOKS,
        "MutatingWebhookConfigurations are stored, but no admission webhook is called",
    ),
    _kind(
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        access.VALIDATING_POLICY,
        "ValidatingAdmissionPolicies are stored but not evaluated: what they deny is accepted",
        parts=("status",),
    ),
    _kind(
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        access.POLICY_BINDING,
        "ValidatingAdmissionPolicyBindings are stored, but no admission policy is evaluated",
    ),
    _kind(
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        access.WEBHOOKS,
        "ValidatingWebhookConfigurations are stored, but no admission webhook is called",
    ),
)
