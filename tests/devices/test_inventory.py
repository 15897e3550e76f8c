"""The inventory of devices, and allocation results cached between pods."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from devices.device_cluster import DRIVER, Cluster
from holdfast.api.cel import DeviceSelectors
from holdfast.api.devices import EXTENDED_CLAIM
from holdfast.api.meta import OwnerReference
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.allocation_cache import DOES_NOT_FIT, ERROR, FITS
from holdfast.state.devices.allocator import Allocator
from holdfast.state.devices.claims import Claims, in_flight_uid
from holdfast.state.devices.inventory import Inventory
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_slice, typed
from soak_size import law

NUMA = "gpu.example.com/numa"


def cluster(*objects):
    nodes = NodeTable()
    inventory = Inventory(nodes)
    for raw in (a_device_class("gpu"), *objects):
        if raw["kind"] == "Node":
            nodes.upsert_node(typed(raw))
        else:
            inventory.upsert(typed(raw))
    return nodes, inventory


def allocated_claim(name, device, node, version="2"):
    result = {"request": "req-0", "driver": "gpu.example.com", "pool": node, "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    return typed(a_claim(name, status=status), resource_version=version)


def codes(nodes, inventory, claim, steps=0):
    answers = inventory.allocation_cache.results(inventory.allocator([claim]), steps)
    return answers.codes(nodes.rows).tolist()


def test_an_older_version_of_a_claim_is_ignored():
    _, inventory = cluster()
    inventory.upsert(allocated_claim("a", "gpu-0", "n", version="10"))
    inventory.upsert(typed(a_claim("a"), resource_version="9"))
    assert inventory.claims.get("default", "a").status.allocation is not None
    inventory.upsert(typed(a_claim("a"), resource_version="11"))
    assert not inventory.allocated_devices.unshared


def test_a_late_response_does_not_restore_a_deleted_claim():
    _, inventory = cluster()
    claim = allocated_claim("a", "gpu-0", "n")
    inventory.upsert(claim)
    inventory.delete(claim)
    inventory.upsert(claim)
    assert inventory.claims.get("default", "a") is None
    assert not inventory.allocated_devices.unshared


def test_an_allocation_in_flight_counts_until_the_claim_is_stored():
    _, inventory = cluster()
    inventory.upsert(typed(a_claim("a")))
    promised = allocated_claim("a", "gpu-0", "n")
    inventory.claims.add_in_flight(promised)
    assert sum(inventory.allocated_devices.unshared.values()) == 1
    inventory.upsert(promised)
    assert sum(inventory.allocated_devices.unshared.values()) == 1
    assert inventory.claims.remove_in_flight(promised.uid)
    assert not inventory.claims.remove_in_flight(promised.uid)
    assert sum(inventory.allocated_devices.unshared.values()) == 1
    inventory.delete(promised)
    assert not inventory.allocated_devices.unshared


def a_claim_of_extended_resources(device, uid):
    """The claim of a pod for its extended resources: in flight it has a substitute uid."""
    claim = allocated_claim("extended", device, "n")
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid="of-p", controller=True)
    notes = {EXTENDED_CLAIM: "true"}
    meta = replace(claim.metadata, uid=uid, annotations=notes, owner_references=(owner,))
    return replace(claim, metadata=meta)


@pytest.mark.parametrize(
    "promised,stored,changes",
    [
        pytest.param("gpu-0", "gpu-0", 0, id="the same device"),
        pytest.param("gpu-0", "gpu-1", 2, id="another device"),
    ],
)
def test_a_stored_claim_of_extended_resources_takes_the_place_of_the_one_in_flight(
    promised, stored, changes
):
    changed = []
    claims = Claims(changed.append)
    claims.add_in_flight(a_claim_of_extended_resources(promised, in_flight_uid("of-p")))
    changed.clear()
    claim = a_claim_of_extended_resources(stored, "its-own")
    assert claims.upsert(claim)
    assert len(changed) == changes
    assert list(claims.allocated_devices.unshared.values()) == [1]
    assert not claims.remove_in_flight(in_flight_uid("of-p"))
    claims.delete(claim)
    assert not claims.allocated_devices.unshared


def test_a_fork_is_independent():
    nodes, inventory = cluster(a_node("n"), a_slice(node="n", devices=1))
    copied = nodes.fork()
    fork = inventory.fork(copied)
    fork.upsert(allocated_claim("a", "gpu-0", "n"))
    claim = typed(a_claim("b"))
    assert codes(copied, fork, claim) == [DOES_NOT_FIT]
    assert codes(nodes, inventory, claim) == [FITS]
    assert not inventory.allocated_devices.unshared


def test_plain_counts_are_compared_without_a_search(monkeypatch):
    nodes, inventory = cluster(
        a_node("n"), a_node("m"),
        a_slice("n-gpu", node="n", devices=4), a_slice("m-gpu", node="m", devices=2),
    )  # fmt: skip
    monkeypatch.setattr(Allocator, "solve_in_steps", None)
    asked = [codes(nodes, inventory, typed(a_claim("a", count=n))) for n in (1, 2, 3, 5)]
    assert asked == [[FITS, FITS], [FITS, FITS], [FITS, DOES_NOT_FIT], [DOES_NOT_FIT, DOES_NOT_FIT]]


def test_the_search_runs_once_for_nodes_with_equal_signatures(monkeypatch):
    def numa(name, *values):
        devices = [a_device(f"d{i}", attributes={"numa": v}) for i, v in enumerate(values)]
        return a_slice(f"{name}-gpu", node=name, devices=devices)

    names = [f"n{i}" for i in range(6)]
    slices = [numa(name, i, i) for i, name in enumerate(names[:5])] + [numa("n5", 1, 2)]
    nodes, inventory = cluster(*(a_node(name) for name in names), *slices)
    searched = []
    solve = Allocator.solve_in_steps
    monkeypatch.setattr(
        Allocator,
        "solve_in_steps",
        lambda self, node, *rest: searched.append(node) or solve(self, node, *rest),
    )
    claim = a_claim("a", count=2, constraints=[{"matchAttribute": NUMA}])
    assert codes(nodes, inventory, typed(claim)) == [FITS] * 5 + [DOES_NOT_FIT]
    assert len(searched) == 2
    inventory.upsert(allocated_claim("b", "d0", "n3"))
    # A claim with an equal spec uses the same cached results; one row is evaluated again.
    assert codes(nodes, inventory, typed(claim | {"metadata": {"name": "z"}})) == [
        FITS, FITS, FITS, DOES_NOT_FIT, FITS, DOES_NOT_FIT,
    ]  # fmt: skip
    assert len(searched) == 3


def test_a_slice_for_all_nodes_invalidates_every_row():
    nodes, inventory = cluster(a_node("n"), a_node("m"))
    claim = typed(a_claim())
    assert codes(nodes, inventory, claim) == [DOES_NOT_FIT, DOES_NOT_FIT]
    inventory.upsert(typed(a_slice("net", node=None, pool="net", allNodes=True)))
    assert codes(nodes, inventory, claim) == [FITS, FITS]
    inventory.upsert(allocated_claim("a", "gpu-0", "net"))
    assert codes(nodes, inventory, claim) == [DOES_NOT_FIT, DOES_NOT_FIT]


NODES = ("a", "b", "c")
EVENT = st.one_of(
    st.tuples(st.just("slice"), st.sampled_from(NODES), st.lists(st.integers(0, 2), max_size=3)),
    st.tuples(st.just("no slice"), st.sampled_from(NODES), st.none()),
    st.tuples(st.just("claim"), st.sampled_from(NODES), st.integers(0, 2)),
    st.tuples(st.just("no claim"), st.sampled_from(NODES), st.integers(0, 2)),
    st.tuples(st.just("promise"), st.sampled_from(NODES), st.integers(0, 2)),
    st.tuples(st.just("withdraw"), st.sampled_from(NODES), st.integers(0, 2)),
    st.tuples(st.just("node"), st.sampled_from(NODES), st.none()),
    st.tuples(st.just("no node"), st.sampled_from(NODES), st.none()),
)  # fmt: skip


def happen(nodes, inventory, event, step):
    kind, node, detail = event
    if kind == "slice":
        devices = [a_device(f"d{i}", attributes={"numa": v}) for i, v in enumerate(detail)]
        raw = a_slice(f"{node}-gpu", node=node, devices=devices)
        inventory.upsert(typed(raw, resource_version=str(step)))
    elif kind == "no slice":
        inventory.delete(typed(a_slice(f"{node}-gpu", node=node)))
    elif kind == "node":
        nodes.upsert_node(typed(a_node(node)))
    elif kind == "no node":
        nodes.delete_node(node)
    else:
        claim = allocated_claim(f"{node}-{detail}", f"d{detail}", node, str(step))
        if kind == "claim":
            inventory.upsert(claim)
        elif kind == "no claim":
            # A recreated claim has another uid.
            inventory.delete(claim)
            inventory.claims._deleted.clear()
        elif kind == "promise":
            inventory.claims.add_in_flight(claim)
        else:
            inventory.claims.remove_in_flight(claim.uid)


@law(60)
@given(st.lists(EVENT, max_size=25))
def test_cached_results_equal_new_ones_after_any_events(events):
    nodes, inventory = cluster(*(a_node(name) for name in NODES))
    wishes = [
        typed(a_claim("one")),
        typed(a_claim("two", count=2)),
        typed(a_claim("near", count=2, constraints=[{"matchAttribute": NUMA}])),
        typed(a_claim("far", count=2, constraints=[{"distinctAttribute": NUMA}])),
    ]
    for step, event in enumerate(events, 10):
        happen(nodes, inventory, event, step)
        for wish in wishes:
            allocator = inventory.allocator([wish])
            kept = inventory.allocation_cache.results(allocator).codes(nodes.rows)
            fresh = [
                FITS
                if allocator.solve(node, inventory.pools_of(node), inventory.allocated_devices)
                else DOES_NOT_FIT
                for node in (nodes.nodes[row] for row in nodes.rows)
            ]
            assert np.array_equal(kept, fresh), (event, wish.name)


def test_deleted_nodes_leave_no_cached_data():
    world = World()
    world.upsert(typed(a_device_class("gpu")))
    claim = typed(a_claim("c"))
    for i in range(5):
        node, devices = typed(a_node(f"n{i}")), typed(a_slice(f"s{i}", node=f"n{i}"))
        world.upsert(node)
        world.upsert(devices)
        assert codes(world.nodes, world.devices, claim) == [FITS]
        for gone in (node, devices) if i % 2 else (devices, node):
            world.delete(gone)
    pools = world.devices.node_pools
    assert not (pools._of or pools._built or pools.changes)


def test_a_recreated_slice_is_evaluated_again():
    nodes, inventory = cluster(a_node("n"))
    devices, claim = typed(a_slice("s", node="n")), typed(a_claim("c"))
    for _ in range(3):
        inventory.upsert(devices)
        assert codes(nodes, inventory, claim) == [FITS]
        inventory.delete(devices)
        assert codes(nodes, inventory, claim) == [DOES_NOT_FIT]


def test_a_claim_with_many_selectors_compiles_each_once_and_in_small_steps(monkeypatch):
    compiled, work = [], [0]
    compile_ = DeviceSelectors._compile
    monkeypatch.setattr(
        DeviceSelectors,
        "_compile",
        lambda self, text: compiled.append(text) or compile_(self, text),
    )
    requests = [
        a_request(f"r{i}", selectors=[f"{32 * i + j} >= 0" for j in range(32)]) for i in range(20)
    ]
    many = Cluster(a_node("n"), a_slice("n-gpu", node="n", devices=24))
    _, results = many.results([a_claim("c", requests=requests)])
    for _ in results.refresh_in_steps(lambda: many.rows):
        work.append(len(compiled))
    assert results.codes(many.rows).tolist() == [FITS]
    assert len(compiled) == len(set(compiled)) == 641  # with that of the class
    assert max(after - before for before, after in pairwise(work)) <= 8
    assert len(work) > 160 + 24  # for compiling, and one for each device


def a_request(name, selectors):
    chosen = [{"cel": {"expression": text}} for text in selectors]
    return {"name": name, "exactly": {"deviceClassName": "gpu", "selectors": chosen}}


def test_a_search_without_single_devices_pauses_and_ends_too():
    """Alternatives of mode All, and of count 0, which an API server without defaults may store."""
    texts = [f"device.attributes[{DRIVER!r}].n == {k}" for k in range(8)]
    of_all = [
        {**a_request("", selectors=[text])["exactly"], "allocationMode": "All"} for text in texts
    ]
    of_none = [{"deviceClassName": "gpu", "count": 0}] * 8
    never = a_request("never", selectors=["false"])
    never["exactly"]["allocationMode"] = "All"
    devices = [a_device(f"d{k}", attributes={"n": k}) for k in range(8)]
    many = Cluster(a_node("n"), a_slice("n-gpu", node="n", devices=devices))
    for some in (of_all, of_none):
        named = [{**one, "name": f"a{k}"} for k, one in enumerate(some)]
        requests = [{"name": f"r{i}", "firstAvailable": named} for i in range(8)]
        allocator = many.inventory.allocator([typed(a_claim("c", requests=[*requests, never]))])
        results = many.inventory.allocation_cache.results(allocator, 20_000)
        steps = sum(1 for _ in results.refresh_in_steps(lambda: many.rows))
        assert (results.codes(many.rows).tolist(), steps > 60) == ([ERROR], True)
