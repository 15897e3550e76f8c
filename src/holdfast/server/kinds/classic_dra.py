"""The kinds of classic DRA in the group of its KEP, ``core.k8s.io``.

They are built from the CRDs that real clusters get in the group ``dra.holdfast.dev``. The KEP also
writes ``core.k8s.io/v1``: that version is accepted, but no object is returned in it after a write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from holdfast.api.classic_dra.names import KEP_GROUP, OWN_GROUP, VERSION
from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.classic_dra.validation import check_claim, check_class, check_pod_scheduling
from holdfast.api.decode import convert_object
from holdfast.runtime.feature_gates import Feature
from holdfast.server import data
from holdfast.server.descriptor import KindDescriptor, ObjectCheck
from holdfast.server.kinds.custom_resources import descriptors_of_crd
from holdfast.server.tables.printer import Obj, Printer, TableCells, columns
from holdfast.state.classic_dra.claim_state import state_of

_CHECKS: dict[str, ObjectCheck] = {
    "resourceclasses": check_class,
    "resourceclaims": check_claim,
    "podschedulings": check_pod_scheduling,
}
_ALIAS = "v1"
"""The version in the examples of the KEP."""
CRD_NAMES = frozenset(f"{plural}.{OWN_GROUP}" for plural in _CHECKS)
"""The CRDs that this server does not store, because it serves their kinds in the KEP's group."""


def _definition(plural: str) -> dict[str, Any]:
    """Return a CRD in the group of the KEP, with the version of the KEP's examples."""
    definition = data.crd(f"{plural}.{OWN_GROUP}")
    spec = definition["spec"]
    version = spec["versions"][0]
    versions = [version, {**version, "name": _ALIAS, "storage": False}]
    meta = {"name": f"{plural}.{KEP_GROUP}"}
    return {
        **definition,
        "metadata": meta,
        "spec": {**spec, "group": KEP_GROUP, "versions": versions},
    }


DEFINITIONS = tuple(map(_definition, _CHECKS))
"""The schemas of the kinds as CRDs, for OpenAPI documents."""


def _kinds() -> Iterator[KindDescriptor]:
    for definition in DEFINITIONS:
        for descriptor in descriptors_of_crd(definition):
            resource = descriptor.resource
            kind = replace(
                descriptor,
                crd_name="",
                feature=Feature.DYNAMIC_RESOURCE_ALLOCATION,
                checks=(_CHECKS[resource.plural],),
            )
            if resource.plural == "resourceclaims":
                kind = replace(kind, printer=_with_state(descriptor.printer))
            if resource.version == _ALIAS:
                kind = replace(
                    kind,
                    is_alias=True,
                    deprecation=f"{resource.api_version} {resource.kind} is stored as "
                    f"{KEP_GROUP}/{VERSION}; use that version",
                )
            yield kind


def _with_state(printer: Printer) -> Printer:
    """Return the printer of claims with their state, which no column of a CRD can express."""

    def cells(obj: Obj, now: float) -> TableCells:
        named, *others = printer.cells(obj, now)
        return [named, _state(obj), *others]

    first, *others = printer.columns
    return replace(printer, columns=(first, *columns("State"), *others), cells=cells)


def _state(obj: Obj) -> str:
    try:
        return state_of(convert_object(obj, ClassicClaim)).value
    except msgspec.ValidationError:
        return ""


KINDS = tuple(_kinds())
