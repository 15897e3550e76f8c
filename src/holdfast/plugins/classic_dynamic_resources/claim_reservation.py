"""Reserve the claims of a pod, which drivers have allocated, and bind it."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api.classic import ClassicClaim
from holdfast.api.classic_shadows import shadow_names
from holdfast.framework.plugin import Placement, PreBindCalls
from holdfast.plugins.classic_dynamic_resources.plan import ClassicClaims
from holdfast.plugins.classic_dynamic_resources.shadow_writes import write_shadows


@dataclass(eq=False)
class ClaimReservation(ClassicClaims):
    """The plan for a pod whose claims are all allocated."""

    missing: tuple[ClassicClaim, ...] = ()
    """The claims to reserve, by uid: pods that need the same claims have the same order."""

    def reserve(self, placement: Placement) -> None:
        """Reserve in flight those claims that are not reserved for the pod yet."""
        uid, claims = self.pod.uid, [of_pod.claim for of_pod in self.claims]
        missing = {claim.uid: claim for claim in claims if not claim.is_reserved_for(uid)}
        self.missing = tuple(missing[key] for key in sorted(missing))
        for claim in self.missing:
            self.ledger.add_in_flight(claim, uid)
            self.ledger.consumers_in_flight.add(claim.uid, self.pod.pod)
            self.in_flight.append(claim)

    def pre_bind_pre_flight(self, placement: Placement) -> bool:
        """Return whether a claim is not reserved yet, or there are shadows."""
        return bool(self.missing or shadow_names(self.pod.pod))

    def pre_bind(self, placement: Placement) -> PreBindCalls:
        """Reserve the claims."""
        yield from self.writes.reserve(self.missing)
        yield from write_shadows(self.pod.pod, self.claims)
        return None
