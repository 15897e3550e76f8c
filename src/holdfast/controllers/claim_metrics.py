"""Metrics of the resourceclaim controller, under upstream's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.devices import EXTENDED_CLAIM, ResourceClaim
from holdfast.controllers.claim_templates import POD_CLAIM_NAME
from holdfast.metric_types import CallbackMetric, CounterMetric


class ClaimMetrics:
    """Counts the creations of claims, and the claims of the cache when a page is requested."""

    def __init__(self, claims: Callable[[], Iterable[ResourceClaim]]) -> None:
        self._creates = CounterMetric(
            "resourceclaim_controller_creates_total",
            "ResourceClaims that were created from a template, or could not be, by status.",
            ("status", "admin_access"),
        )
        gauge = CallbackMetric(
            "resourceclaim_controller_resource_claims",
            "ResourceClaims by allocation, admin access and source; the source is "
            "extended_resource, resource_claim_template, or empty for the claims of users.",
            ("allocated", "admin_access", "source"),
            lambda: Counter(map(claim_labels, claims())),
        )
        self.all = (self._creates, gauge)

    def created(self, claim: ResourceClaim) -> None:
        """Count a claim that was created."""
        self._creates.add("success", admin_access(claim))

    def failed(self, body: Mapping[str, Any]) -> None:
        """Count a raw claim that could not be created."""
        try:
            label = admin_access(convert_object(body, ResourceClaim))
        except msgspec.ValidationError:
            label = "false"
        self._creates.add("failure", label)


def admin_access(claim: ResourceClaim) -> str:
    """Return "true" if a request of the claim asks for admin access, else "false"."""
    exact = (request.exactly for request in claim.spec.devices.requests)
    return _text(any(each is not None and each.admin_access is True for each in exact))


def claim_labels(claim: ResourceClaim) -> tuple[str, str, str]:
    """Return whether a claim is allocated, whether it has admin access, and its source."""
    notes = claim.metadata.annotations
    source = ""
    if notes.get(EXTENDED_CLAIM) == "true":
        source = "extended_resource"
    elif notes.get(POD_CLAIM_NAME):
        source = "resource_claim_template"
    return _text(claim.status.allocation is not None), admin_access(claim), source


def _text(value: bool) -> str:
    return str(value).lower()
