import msgspec

from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.api_server import ApiServer
from holdfast.server.bootstrap_objects import create_bootstrap_objects
from holdfast.server.store.store import Store
from holdfast.testing.bootstrap_copy import copy_bootstrap_objects
from holdfast.testing.clock import VirtualClock

LATER = VirtualClock().now() + 86_400


async def started(directory, bootstrap, gates):
    """Return the objects and the served resources of a new server, and the uids of the objects."""
    clock = VirtualClock(LATER)
    store = Store.open(directory, clock)
    server = ApiServer.create(store, clock, feature_gates=gates)
    await server.start(bootstrap)
    objects, uids = {}, set()
    for resource in store.resources:
        for stored in store.list(*resource):
            obj = msgspec.json.decode(stored.value)
            assert obj["metadata"]["resourceVersion"] == str(stored.revision)
            uids.add(obj["metadata"].pop("uid"))
            objects[stored.key] = obj
    served = {descriptor.resource for descriptor in server.context.registry}
    await server.stop()
    await store.close()
    return objects, served, uids


async def test_copied_objects_are_those_that_requests_create(tmp_path):
    for gates in (FeatureGates(), FeatureGates({"DynamicResourceAllocation": False})):
        name = str(gates) or "default"
        created = await started(tmp_path / name / "created", create_bootstrap_objects, gates)
        first = await started(tmp_path / name / "first", copy_bootstrap_objects, gates)
        second = await started(tmp_path / name / "second", copy_bootstrap_objects, gates)
        assert first[:2] == second[:2] == created[:2]
        assert len(first[2] | second[2] | created[2]) == 3 * len(created[0])


async def test_objects_that_exist_stay(tmp_path):
    clock = VirtualClock()
    for _ in range(2):
        store = Store.open(tmp_path, clock)
        server = ApiServer.create(store, clock)
        await server.start(copy_bootstrap_objects)
        revision = store.revision
        await server.stop()
        await store.close()
    assert revision == sum(1 for resource in store.resources for _ in store.list(*resource))
