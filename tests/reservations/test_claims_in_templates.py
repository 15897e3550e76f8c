"""A reservation whose template names ResourceClaims is refused, whether they exist or not."""

import pytest

from holdfast.testing import a_reservation
from reservations.objects import WEB, node, owner


@pytest.mark.parametrize(
    "claim",
    [
        {"name": "gpu", "resourceClaimName": "c"},
        {"name": "gpu", "resourceClaimTemplateName": "t"},
    ],
)
async def test_ND14_the_condition_says_that_claims_are_not_supported(cluster, claim):
    template = {"claims": [claim]}
    await cluster.create(node(), a_reservation("r", cpu="4", owner_labels=WEB, template=template))
    found = await cluster.reservation("r")
    assert found.phase == "Pending" and not found.status.node_name
    (condition,) = found.status.conditions
    assert (condition.type, condition.status, condition.reason) == (
        "Scheduled", "False", "Unschedulable",
    )  # fmt: skip
    assert "reservations of ResourceClaims are not supported" in condition.message
    await cluster.create(owner(cpu="4"))
    assert await cluster.node_of("owner") == "n1", "it reserves nothing"
