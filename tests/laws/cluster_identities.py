"""The audit of a cluster in which pods have CPUs and devices of their own."""

from holdfast.api.scheme import SHARED_DEVICES
from laws.cluster_audit import broken_promises, take_census
from laws.identity_audit import shared_identities, wrong_amounts


async def audit(cluster, *, all_scheduled=False):
    """Every CPU and device has one holder, and no pod has more than it requests.

    If the scheduler has placed all pods, those that request devices also have them. Return the
    census.
    """
    census = await take_census(cluster.client)
    devices = (await cluster.client.list(SHARED_DEVICES)).items
    broken = [
        *broken_promises(census),
        *shared_identities(census.pods, census.reservations, devices),
        *wrong_amounts(census.pods, census.reservations, (), devices if all_scheduled else ()),
    ]
    assert not broken, broken
    return census
