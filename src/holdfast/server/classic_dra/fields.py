"""The fields of pods that the KEP of classic DRA adds to the published schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.classic_dra.names import IMMEDIATE, WAIT_FOR_FIRST_CONSUMER
from holdfast.server.added_group import REF, AddedFields

_ENTRY = "io.k8s.api.core.v1.PodResourceClaim"
"""The published type that gets a field."""
_PREFIX = "dev.holdfast.dra.v1alpha1."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _string(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _object(type_name: str, description: str) -> dict[str, Any]:
    return {"allOf": [{"$ref": REF + type_name}], "description": description}


_SOURCE, _TEMPLATE, _SPEC, _PARAMETERS = (
    _PREFIX + name
    for name in ("ClaimSource", "ClaimTemplate", "ResourceClaimSpec", "ParametersReference")
)
_PROPERTIES: Mapping[str, Mapping[str, dict[str, Any]]] = {
    _ENTRY: {
        "claim": _object(
            _SOURCE,
            "A claim of classic DRA (core.k8s.io), which a resource driver allocates; an entry "
            "with it must have neither resourceClaimName nor resourceClaimTemplateName.",
        )
    },
    _SOURCE: {
        "resourceClaimName": _string("The name of a ResourceClaim of core.k8s.io."),
        "template": _object(
            _TEMPLATE,
            "The claim that is created for the pod, with the name <pod>-<name of this entry>.",
        ),
    },
    _TEMPLATE: {
        "metadata": _object(_META, "Labels and annotations of the claim; nothing else may be set."),
        "spec": _object(_SPEC, "The spec of the claim."),
    },
    _SPEC: {
        "resourceClassName": _string("The ResourceClass, which names the driver."),
        "parametersRef": _object(
            _PARAMETERS, "An object of the pod's namespace with parameters for the driver."
        ),
        "allocationMode": _string(
            "When the claim is allocated.", enum=[WAIT_FOR_FIRST_CONSUMER, IMMEDIATE]
        ),
    },
    _PARAMETERS: {
        "apiGroup": _string("The group of its kind; empty is the core group."),
        "kind": _string("Its kind."),
        "name": _string("Its name."),
    },
}
"""The added properties by type; of all types but _ENTRY they are all."""
_DESCRIPTIONS = {
    _SOURCE: "A claim of classic DRA, by name or from a template; one of them must be set.",
    _TEMPLATE: "The template of a claim that is created for a pod.",
    _SPEC: "What a claim of classic DRA needs.",
    _PARAMETERS: "An object with parameters for a resource driver.",
}
FIELDS = AddedFields(_PROPERTIES, _DESCRIPTIONS)
