"""Strategies for slices, counters, claims and deletions, and the steps that apply them."""

from hypothesis import strategies as st

from devices.device_cluster import allocated_claim, counters, part
from holdfast.testing import a_claim, a_device, a_node, a_slice

DRIVER = "gpu.example.com"
NUMA = f"{DRIVER}/numa"
RACK = "example.com/rack"
NODES, SETS = ("a", "b", "c"), ("s", "t")
POOLS = {"one": 1, "two": 2, "pair": 2, "three": 3}
"""Pools and the number of their slices."""
DEVICE = st.fixed_dictionaries(
    {
        "set": st.sampled_from((None, *SETS)),
        "amount": st.sampled_from("123"),
        "numa": st.sampled_from((None, 0, 1)),
        "shareable": st.booleans(),
        "on": st.sampled_from(NODES),
    }
)
WHERE = st.sampled_from(("node", "node", "all", "rack", "device"))
SLICE = st.tuples(
    st.just("slice"),
    st.sampled_from([*POOLS]),
    st.sampled_from(NODES),
    st.tuples(WHERE, st.lists(DEVICE, min_size=1, max_size=3), st.sampled_from((1, 1, 1, 2))),
)
COUNTERS = st.tuples(
    st.just("counters"),
    st.sampled_from([*POOLS]),
    st.sampled_from(NODES),
    st.tuples(
        st.lists(st.sampled_from(SETS), min_size=1, max_size=2, unique=True),
        st.sampled_from((1, 1, 1, 2)),
        st.sampled_from("2468"),
    ),
)
CLAIM = st.tuples(
    st.just("claim"),
    st.sampled_from([*POOLS]),
    st.sampled_from(NODES),
    st.tuples(st.integers(0, 2), st.sampled_from((None, "2Gi"))),
)
GONE = st.tuples(
    st.just("gone"),
    st.sampled_from([*POOLS]),
    st.sampled_from(NODES),
    st.sampled_from(("slice", "counters", "claim", "node")),
)


def happen(cluster, event):
    kind, pool, node, detail = event
    if kind == "slice":
        cluster.add(a_random_slice(pool, node, *detail))
    elif kind == "counters":
        sets, generation, total = detail
        cluster.add(
            counters(
                f"{pool}-{node}-counters",
                *sets,
                pool=pool,
                node=node,
                slices=POOLS[pool],
                generation=generation,
                total=total,
            )
        )
    elif kind == "claim":
        number, share = detail
        claim = allocated_claim(f"{pool}-{node}", f"{node}{number}", pool, share)
        cluster.remove("ResourceClaim", f"{pool}-{node}")
        claim["metadata"]["uid"] += str(len(cluster.inventory.claims._deleted))
        cluster.add(claim)
    elif kind == "node":
        cluster.add(a_node(node, labels={RACK: detail}))
    elif detail == "node":
        cluster.remove("Node", node)
    else:
        suffix = {"slice": "-gpu", "counters": "-counters", "claim": ""}[detail]
        what = "ResourceClaim" if detail == "claim" else "ResourceSlice"
        cluster.remove(what, f"{pool}-{node}{suffix}")


def a_random_slice(pool, node, where, devices, generation):
    made = []
    for i, device in enumerate(devices):
        raw = a_device(f"{node}{i}", capacity={"memory": "4Gi"})
        if device["numa"] is not None:
            raw["attributes"] = {"numa": {"int": device["numa"]}}
        if device["set"]:
            raw |= part("x", device["set"], device["amount"]) | {"name": raw["name"]}
        if device["shareable"]:
            raw["allowMultipleAllocations"] = True
        if where == "device":
            raw["nodeName"] = device["on"]
        made.append(raw)
    terms = [{"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r"]}]}]
    spec = {
        "node": {"node": node},
        "all": {"node": None, "allNodes": True},
        "rack": {"node": None, "nodeSelector": {"nodeSelectorTerms": terms}},
        "device": {"node": None, "perDeviceNodeSelection": True},
    }[where]
    return a_slice(
        f"{pool}-{node}-gpu",
        pool=pool,
        devices=made,
        slices=POOLS[pool],
        generation=generation,
        **spec,
    )


def asks(**exactly):
    return [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]


CLAIMS = (
    [a_claim("one")],
    [a_claim("two", count=2)],
    [a_claim("near", count=2, constraints=[{"matchAttribute": NUMA}])],
    [a_claim("far", count=2, constraints=[{"distinctAttribute": NUMA}])],
    [a_claim("share", requests=asks(capacity={"requests": {"memory": "2Gi"}}, count=2))],
    [a_claim("all", requests=asks(allocationMode="All"))],
    [a_claim("first"), a_claim("second", count=2)],
    [
        a_claim(
            "either",
            requests=[
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "x", "deviceClassName": "gpu", "count": 3},
                        {"name": "y", "deviceClassName": "gpu"},
                    ],
                }
            ],
        )
    ],
)
