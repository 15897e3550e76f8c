"""After random network faults a Deployment has the right number of pods and claims."""

from __future__ import annotations

import random

import pytest

from controllers.small_cluster import start_small_cluster
from holdfast.api.scheme import DEPLOYMENTS, RESOURCE_CLAIMS
from holdfast.testing import (
    Chances,
    FaultyTransport,
    a_claim_template,
    a_deployment,
    a_node,
)

FAULTS = Chances(
    conflict=0.05, unavailable=0.05, unavailable_after=0.05, lost=0.05, expired=0.05, cut=0.1,
    torn=0.05, ended=0.05,
)  # fmt: skip
ENTRY = [{"name": "gpu", "resourceClaimTemplateName": "t"}]


@pytest.mark.parametrize("seed", range(4))
async def test_after_random_faults_the_number_of_pods_is_right(tmp_path, seed):
    faulty = []

    def with_faults(transport, clock):
        faulty.append(
            FaultyTransport(
                transport, chances=FAULTS, rng=random.Random(seed), clock=clock, enabled=False
            )
        )
        return faulty[0]

    async with start_small_cluster(tmp_path, with_faults) as cluster:
        faulty[0].enabled = True
        await cluster.create(
            a_node("n"), a_claim_template("t"), a_deployment("web", replicas=5, claims=ENTRY)
        )
        for replicas in (8, 3):
            cluster.end_watches()
            await cluster.clock.advance(20)
            await cluster.bind_all("n")
            cluster.end_watches()
            scale = {"spec": {"replicas": replicas}}
            await cluster.client.patch(DEPLOYMENTS, "web", scale, "default")
        await cluster.clock.advance(20)
        faulty[0].enabled = False
        assert len(faulty[0].injected_faults) > 30
        await cluster.clock.advance(400)  # longer than the timeout of expectations

        pods = await cluster.pods()
        assert len(pods) == 3
        web = await cluster.get(DEPLOYMENTS, "web", "default")
        assert web.status.replicas == 3
        claims = (await cluster.client.list(RESOURCE_CLAIMS, "default")).items
        owners = sorted(c.metadata.owner_references[0].uid for c in claims)
        assert owners == sorted(p.uid for p in pods)
