"""The spec of a classic ResourceClaim, and the templates of claims inside pods."""

from __future__ import annotations

from holdfast.api.classic_names import WAIT_FOR_FIRST_CONSUMER
from holdfast.api.meta import ObjectMeta, Struct


class ParametersReference(Struct, frozen=True):
    """An object with parameters for a driver; a claim's is in the claim's namespace."""

    api_group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    """Only in a class; empty for a cluster-scoped object."""


class ClassicClaimSpec(Struct, frozen=True):
    """The spec of a classic claim; immutable."""

    resource_class_name: str = ""
    parameters_ref: ParametersReference | None = None
    allocation_mode: str = WAIT_FOR_FIRST_CONSUMER


class ClassicClaimTemplate(Struct, frozen=True):
    """Labels, annotations and spec of the claim that is created for a pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClassicClaimSpec = ClassicClaimSpec()


class ClassicClaimSource(Struct, frozen=True):
    """A claim by name, or the template of one that is created for the pod."""

    resource_claim_name: str | None = None
    template: ClassicClaimTemplate | None = None
