"""What is cached for the claims of one namespace is not evicted by those of another."""

import pytest

from devices.device_cluster import Cluster
from holdfast.api.cel.devices import CompiledSelector, DeviceSelectors
from holdfast.state.devices.allocator import Allocator
from holdfast.testing import a_claim, a_device, a_node, a_slice

HOSTILE = 300
"""More claims than the caches have entries."""
I = 'device.attributes["gpu.example.com"].i'  # noqa: E741 - as in the selectors
SELECTORS = {
    "one value": f"{I} >= 0",
    "all values": "device.attributes.exists(d, device.attributes[d].i >= 0)",
}


@pytest.fixture
def counts(monkeypatch):
    """How often selectors were compiled and evaluated, and devices searched."""
    found = {"compiled": 0, "evaluated": 0, "searched": 0}

    def count(owner, name, what):
        function = getattr(owner, name)

        def counted(*arguments):
            found[what] += 1
            return function(*arguments)

        monkeypatch.setattr(owner, name, counted)

    count(DeviceSelectors, "_compile", "compiled")
    count(CompiledSelector, "matches", "evaluated")
    count(Allocator, "solve_in_steps", "searched")
    return found


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("count", [1, 2])
def test_a_tenant_does_not_evict_the_results_of_another(counts, selector, count):
    devices = [a_device(f"d{i}", attributes={"i": i}) for i in range(8)]
    cluster = Cluster(a_node("n"), a_slice("s", node="n", devices=devices))
    far = {"count": count, "constraints": [{"distinctAttribute": "gpu.example.com/i"}]}

    def decide(name, namespace, expression):
        claim = a_claim(name, namespace=namespace, selectors=[expression], **far)
        return cluster.codes(claim)

    first = decide("a", "victim", SELECTORS[selector])
    for i in range(HOSTILE):
        decide("b", "hostile", f"{I} < -{i}")
    counts.update(dict.fromkeys(counts, 0))
    assert decide("a", "victim", SELECTORS[selector]) == first
    assert counts == {"compiled": 0, "evaluated": 0, "searched": 0}


@pytest.mark.parametrize("selector", SELECTORS)
def test_new_devices_or_nodes_need_no_evaluation_of_known_ones(counts, selector):
    devices = [a_device(f"d{i}", attributes={"i": i}) for i in range(8)]
    cluster = Cluster(a_node("n"), a_slice("s", node="n", devices=devices))
    claim = a_claim("a", namespace="victim", selectors=[SELECTORS[selector]])
    cluster.codes(claim)
    for i in range(HOSTILE):
        cluster.codes(a_claim("b", namespace="hostile", selectors=[f"{I} < -{i}"]))
    more = [a_device(f"e{i}", attributes={"i": 8 + i}) for i in range(2)]
    cluster.add(a_slice("t", node="n", pool="p", devices=more))
    counts.update(dict.fromkeys(counts, 0))
    cluster.codes(claim)
    assert counts["compiled"] == 0
    assert counts["evaluated"] <= len(more)
