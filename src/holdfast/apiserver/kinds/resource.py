"""The kinds of ``resource.k8s.io``: devices, and claims to them."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import Deletion, Served, selectable
from holdfast.apiserver.kinds.printers import devices
from holdfast.apiserver.unbuilt import Field, Unbuilt
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

_ANSWERED = Deletion(answers_object=True)
_BINDING_CONDITIONS = Field(
    ("spec", "devices", "[]", "bindingConditions"),
    "Devices with binding conditions are not allocated",
)

KINDS = (
    Served(
        scheme.DEVICE_CLASSES,
        lists=tree_of(list_limits.DEVICE_CLASS),
        deletion=_ANSWERED,
        counts_generations=True,
    ),
    Served(
        scheme.RESOURCE_CLAIMS,
        lists=tree_of(list_limits.RESOURCE_CLAIM),
        immutable=("spec",),
        printer=devices.RESOURCE_CLAIM,
        deletion=_ANSWERED,
    ),
    Served(
        scheme.RESOURCE_CLAIM_TEMPLATES,
        lists=tree_of(list_limits.RESOURCE_CLAIM_TEMPLATE),
        immutable=("spec",),
        deletion=_ANSWERED,
    ),
    Served(
        scheme.RESOURCE_SLICES,
        lists=tree_of(list_limits.RESOURCE_SLICE),
        printer=devices.RESOURCE_SLICE,
        selectable=selectable("spec.driver", "spec.nodeName"),
        deletion=_ANSWERED,
        counts_generations=True,
        unbuilt=Unbuilt(fields=(_BINDING_CONDITIONS,)),
    ),
)
