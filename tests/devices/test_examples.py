"""The device examples work, alone and together."""

from pathlib import Path

import numpy as np
import yaml

from holdfast.scheduling.engine.decision import decide
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, typed

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def documents():
    for folder in ("30-dra-claim", "31-extended-resource"):
        for path in sorted((EXAMPLES / folder).glob("*.yaml")):
            raw = yaml.safe_load(path.read_text())
            raw["metadata"].setdefault("namespace", "default")
            yield raw


def as_pod(raw):
    """Return the pod, or the pod of a Deployment, with limits as default requests."""
    if raw["kind"] == "Pod":
        return raw
    spec = raw["spec"]["template"]["spec"]
    for container in spec["containers"]:
        container["resources"]["requests"] = container["resources"]["limits"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": raw["metadata"], "spec": spec}


def test_pods_of_both_examples_are_allocated_devices():
    world = World()
    for name in ("node-0001", "node-0002", "node-0003"):
        world.upsert(typed(a_node(name)))
    pods = []
    for raw in documents():
        if raw["kind"] in ("Pod", "Deployment"):
            pods.append(typed(as_pod(raw)))
        else:
            world.upsert(typed(raw))
    profile = default_profiles()["default-scheduler"]
    given = {}
    for pod in pods:
        pod_info = world.pod_info(pod)
        placement = decide(profile, profile.view(pod_info, world, 0.0), np.random.default_rng(0))
        assert isinstance(placement, Placement), placement.message()
        for plugin in profile.plugins_at(Point.RESERVE):
            if plugin.name in placement.plans:
                assert placement.plans[plugin.name].reserve(placement) is None
        in_flight = placement.plans["DynamicResources"].writes.in_flight
        devices = [r.device for c in in_flight for r in c.status.allocation.devices.results]
        given[pod.name] = (placement.node, devices)
    assert given == {"training": ("node-0001", ["gpu-1"]), "demo": ("node-0002", ["gpu-0"])}
