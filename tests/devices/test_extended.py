"""Extended resources that devices serve: classes, requests and mappings."""

from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.extended_resources import create_requests_and_mappings
from holdfast.state.devices.inventory import Inventory
from holdfast.testing import a_device_class, a_pod, typed

GPU = "example.com/gpu"


def container(name, count, **fields):
    amounts = {GPU: str(count)}
    return {"name": name, "image": "i", "resources": {"requests": amounts}} | fields


def requests_for(*, init=(), regular=()):
    pod = typed(a_pod(initContainers=list(init), containers=list(regular)))
    found = create_requests_and_mappings(pod, [GPU], {GPU: "gpu"}.get)
    requests = [(r.name, r.count) for r in found.requests]
    return requests, sorted((m.container_name, m.request_name) for m in found.mappings)


def test_D058_a_zero_quantity_makes_no_request():
    assert requests_for(regular=[container("c", 0)]) == ([], [])


def test_D060_two_resources_in_two_containers_are_four_requests():
    both = {"resources": {"requests": {GPU: "1", "example.com/nic": "1"}}}
    pod = typed(a_pod(containers=[{"name": n, "image": "i"} | both for n in "ab"]))
    classes = {GPU: "gpu", "example.com/nic": "nic"}
    found = create_requests_and_mappings(pod, list(classes), classes.get)
    assert [(r.name, r.device_class) for r in found.requests] == [
        ("container-0-request-0", "gpu"), ("container-0-request-1", "nic"),
        ("container-1-request-0", "gpu"), ("container-1-request-1", "nic"),
    ]  # fmt: skip
    assert len(found.mappings) == 4


def test_D061_an_init_container_reuses_devices_of_later_containers():
    requests, mappings = requests_for(init=[container("i", 2)], regular=[container("c", 1)])
    assert requests == [("container-0-request-0", 1), ("container-1-request-0", 1)]
    assert mappings == [
        ("c", "container-1-request-0"), ("i", "container-0-request-0"),
        ("i", "container-1-request-0"),
    ]  # fmt: skip


def test_D062_only_an_init_container_before_a_sidecar_reuses_its_device():
    sidecar = container("s", 1, restartPolicy="Always")
    requests, mappings = requests_for(init=[container("i", 1), sidecar])
    assert requests == [("container-1-request-0", 1)]
    assert ("i", "container-1-request-0") in mappings
    requests, mappings = requests_for(init=[sidecar, container("i", 1)])
    assert requests == [("container-0-request-0", 1), ("container-1-request-0", 1)]
    assert ("i", "container-1-request-0") in mappings


def test_D063_of_two_init_containers_only_the_larger_request_remains():
    requests, mappings = requests_for(init=[container("small", 1), container("large", 3)])
    assert requests == [("container-1-request-0", 3)]
    assert mappings == [("large", "container-1-request-0"), ("small", "container-1-request-0")]


def test_an_amount_beyond_int64_is_capped_as_upstream():
    requests, _ = requests_for(regular=[container("c", "9" * 30)])
    assert requests == [("container-0-request-0", 2**63 - 1)]


def serving(*classes):
    inventory = Inventory(NodeTable())
    for raw, created in classes:
        inventory.upsert(typed(raw, creation_timestamp=created))
    return inventory


def gpu_class(name):
    return a_device_class(name, extendedResourceName=GPU)


def test_D055_the_newest_class_serves_a_resource_until_it_is_deleted():
    old, new = gpu_class("old"), gpu_class("new")
    inventory = serving((new, "2030-01-02T00:00:00Z"), (old, "2030-01-01T00:00:00Z"))
    assert inventory.device_class_for(GPU) == "new"
    inventory.delete(typed(old))
    assert inventory.device_class_for(GPU) == "new"
    inventory.upsert(typed(old, creation_timestamp="2030-01-01T00:00:00Z"))
    inventory.delete(typed(new))
    assert inventory.device_class_for(GPU) == "old"


def test_D055_of_classes_created_in_the_same_second_the_first_by_name_serves():
    moment = "2030-01-01T00:00:00Z"
    inventory = serving((gpu_class("b"), moment), (gpu_class("a"), moment))
    assert inventory.device_class_for(GPU) == "a"


def test_every_class_serves_its_implicit_name_and_bumps_the_epoch():
    nodes = NodeTable()
    inventory = Inventory(nodes)
    before = nodes.epochs["classes"]
    assert inventory.device_class_for("deviceclass.resource.kubernetes.io/gpu") is None
    inventory.upsert(typed(gpu_class("gpu")))
    assert inventory.device_class_for("deviceclass.resource.kubernetes.io/gpu") == "gpu"
    assert nodes.epochs["classes"] > before
