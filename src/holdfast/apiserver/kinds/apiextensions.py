"""The kind of ``apiextensions.k8s.io``: definitions of custom resources."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Admitter, Deletion, Served
from holdfast.apiserver.kinds.admission.definitions import (
    CLEANUP,
    admit_definition,
    warn_of_unbuilt_rules,
)
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.kinds.validation.definitions import check_definition_write
from holdfast.apiserver.tables.printer import NAME_CREATED
from holdfast.apiserver.unbuilt import Field, Unbuilt

_DEFINITIONS = row(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short=("crd", "crds"),
    categories=("api-extensions",),
    parts=("status",),
)
_CONVERSION = Field(
    ("spec", "conversion", "strategy"),
    "Conversion webhooks are not called: every version shows the fields as they were stored",
    ("Webhook",),
)

KINDS = (
    Served(
        _DEFINITIONS,
        checks=(check_definition_write,),
        admitters=(Admitter(admit_definition, warn_of_unbuilt_rules),),
        unbuilt=Unbuilt(fields=(_CONVERSION,)),
        printer=NAME_CREATED,
        deletion=Deletion(finalizer=CLEANUP),
        counts_generations=True,
        needs_version=True,
        defines_resources=True,
    ),
)
