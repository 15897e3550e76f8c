"""The kind of ``apiextensions.k8s.io``: CustomResourceDefinition."""

from __future__ import annotations

from holdfast.server.descriptor import (
    AdmissionPlugin,
    DeletionStrategy,
    KindDescriptor,
    untyped_resource,
)
from holdfast.server.kinds.admission.crds import (
    CLEANUP_FINALIZER,
    admit_definition,
)
from holdfast.server.kinds.validation.crds import check_definition_write
from holdfast.server.tables.printer import NAME_CREATED
from holdfast.server.unimplemented_features import UnimplementedFeatures, UnimplementedField

_DEFINITIONS = untyped_resource(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short=("crd", "crds"),
    categories=("api-extensions",),
    parts=("status",),
)
_CONVERSION = UnimplementedField(
    ("spec", "conversion", "strategy"),
    "Conversion webhooks are not called: every version shows the fields as they were stored",
    ("Webhook",),
)

KINDS = (
    KindDescriptor(
        _DEFINITIONS,
        checks=(check_definition_write,),
        admission_plugins=(AdmissionPlugin(admit_definition),),
        unimplemented=UnimplementedFeatures(fields=(_CONVERSION,)),
        printer=NAME_CREATED,
        deletion=DeletionStrategy(finalizer=CLEANUP_FINALIZER),
        has_generation=True,
        requires_resource_version=True,
        defines_resources=True,
    ),
)
