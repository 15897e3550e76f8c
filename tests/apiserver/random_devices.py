"""Random valid objects of resource.k8s.io/v1: claims, slices and device classes."""

from hypothesis import strategies as st

names = st.sampled_from(("a", "b", "gpu-0", "net.1"))
_EXPRESSION = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}
_selectors = st.lists(st.just(_EXPRESSION), max_size=2)
_tolerations = st.lists(
    st.sampled_from(
        (
            {"operator": "Exists"},
            {
                "key": "example.com/broken",
                "operator": "Equal",
                "value": "x",
                "effect": "NoSchedule",
            },
            {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
        )
    ),
    max_size=2,
)
_amounts = st.sampled_from(("1", "10Gi", "500m"))
_node_selector = st.just(
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
)
_attribute = st.one_of(
    st.builds(lambda v: {"int": v}, st.integers(-5, 5)),
    st.builds(lambda v: {"bool": v}, st.booleans()),
    st.builds(lambda v: {"string": v}, st.sampled_from(("", "x"))),
    st.just({"version": "1.0.0"}),
)
_counters = st.lists(
    st.fixed_dictionaries({"counterSet": names, "counters": st.just({"memory": {"value": "1Gi"}})}),
    max_size=2,
)
_taints = st.lists(
    st.fixed_dictionaries(
        {"key": st.just("example.com/t"), "effect": st.sampled_from(("NoSchedule", "None"))},
        optional={"value": names, "timeAdded": st.just("2026-01-01T00:00:00Z")},
    ),
    max_size=2,
)


def _mode(draw, body):
    if draw(st.booleans()):
        return {**body, "allocationMode": "All"}
    return {**body, "allocationMode": "ExactCount", "count": draw(st.integers(1, 3))}


@st.composite
def _wanted(draw, *, exact):
    optional = {
        "selectors": _selectors,
        "tolerations": _tolerations,
        "capacity": st.just({"requests": {"memory": "1Gi"}}),
    }
    if exact:
        optional["adminAccess"] = st.booleans()
    head = {"deviceClassName": names}
    return _mode(draw, draw(st.fixed_dictionaries(head, optional=optional)))


@st.composite
def _request(draw, name):
    if draw(st.booleans()):
        return {"name": name, "exactly": draw(_wanted(exact=True))}
    alternatives = draw(st.lists(_wanted(exact=False), min_size=1, max_size=3))
    listed = [{"name": f"s{i}", **body} for i, body in enumerate(alternatives)]
    return {"name": name, "firstAvailable": listed}


@st.composite
def claim_specs(draw):
    count = draw(st.integers(1, 3))
    devices = {"requests": [draw(_request(f"r{i}")) for i in range(count)]}
    if draw(st.booleans()):
        devices["constraints"] = [{"requests": ["r0"], "matchAttribute": "example.com/numa"}]
    if draw(st.booleans()):
        opaque = {"driver": "gpu.example.com", "parameters": {"basic": 1, "exactly": {}}}
        devices["config"] = [{"opaque": opaque}]
    return {"devices": devices}


@st.composite
def _device(draw, name):
    optional = {
        "attributes": st.dictionaries(st.sampled_from(("name", "x.com/basic")), _attribute),
        "capacity": st.dictionaries(
            st.sampled_from(("memory", "x.com/m")), _amounts.map(lambda v: {"value": v})
        ),
        "consumesCounters": _counters,
        "nodeName": names,
        "nodeSelector": _node_selector,
        "allNodes": st.booleans(),
        "taints": _taints,
        "bindsToNode": st.booleans(),
        "bindingConditions": st.lists(names, max_size=2),
        "bindingFailureConditions": st.lists(names, max_size=2),
        "allowMultipleAllocations": st.booleans(),
    }
    return {"name": name, **draw(st.fixed_dictionaries({}, optional=optional))}


@st.composite
def slice_specs(draw):
    count = draw(st.integers(0, 3))
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": "p", "generation": draw(st.integers(0, 2)), "resourceSliceCount": 1},
        **draw(
            st.sampled_from(
                (
                    {"nodeName": "n1"},
                    {"allNodes": True},
                    {"perDeviceNodeSelection": True},
                )
            )
        ),
    }
    if count:
        spec["devices"] = [draw(_device(f"d{i}")) for i in range(count)]
    else:
        spec["sharedCounters"] = [{"name": "c", "counters": {"memory": {"value": "1Gi"}}}]
    return spec
