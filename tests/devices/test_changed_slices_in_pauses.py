"""A slice may change while selectors are evaluated for its devices; so many are left in no step."""

import pytest

from devices.device_cluster import NUMA, Cluster
from holdfast.api.cel.devices import CompiledSelector
from holdfast.testing import a_claim, a_device, a_node, a_slice

DEVICES = 40
NUMBER = 'device.attributes["gpu.example.com"].numa'
LIST = str([*range(13)])
COSTLY = f"{LIST}.all(x, {LIST}.all(y, {LIST}.all(z, {NUMBER} + x + y + z >= 0)))"
CLAIMS = {
    "counted": a_claim("c", selectors=[COSTLY]),
    "searched": a_claim(
        "c", selectors=[COSTLY], count=2, constraints=[{"distinctAttribute": NUMA}]
    ),
}


def slice_from(first):
    numbers = range(first, first + DEVICES)
    return a_slice(
        "s", node="n", devices=[a_device(f"d{i}", attributes={"numa": i}) for i in numbers]
    )


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
@pytest.mark.parametrize("change_at", [1, 5, 2 * DEVICES // 3])
def test_devices_of_a_changed_slice_are_evaluated_in_steps(monkeypatch, claim, change_at):
    evaluated, matches = [0], CompiledSelector.matches

    def counted(selector, device):
        evaluated[-1] += 1
        return matches(selector, device)

    monkeypatch.setattr(CompiledSelector, "matches", counted)
    cluster = Cluster(a_node("n"), slice_from(0))
    for step, _ in enumerate(cluster.results([claim])[1].refresh_in_steps(lambda: cluster.rows)):
        evaluated.append(0)
        if step == change_at:
            cluster.add(slice_from(100))
    assert max(evaluated) <= 2
    before = sum(evaluated)
    codes = cluster.codes(claim)
    assert sum(evaluated) == before > DEVICES, "all devices are evaluated in steps"
    assert codes == cluster.searched_anew(claim)
