"""A pod that acts as a reservation and has the labels of an owner of another one."""

import msgspec
import numpy as np

from holdfast.api import koordinator_names
from holdfast.scheduling.engine.decision import decide
from holdfast.scheduling.engine.post_filter import run_post_filter_plugins
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, a_pod, a_reservation, typed

OWNERS = msgspec.json.encode([{"labelSelector": {"matchLabels": {"app": "other"}}}]).decode()


def test_it_is_rejected_like_any_pod_that_uses_no_reservation():
    world, profile = World(), default_profiles()["default-scheduler"]
    held = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "2"}}
    world.upsert(typed(a_node("n", cpu="8")))
    world.upsert(typed(a_reservation("r", owner_labels={"app": "web"}, status=held)))
    labels = {"app": "web", koordinator_names.OPERATING_MODE: "Reservation"}
    acting = a_pod(
        "p", cpu="1", labels=labels, annotations={koordinator_names.RESERVATION_OWNERS: OWNERS}
    )
    view = profile.view(world.pod_info(typed(acting)), world, 0.0)
    found = decide(profile, view, np.random.default_rng(0))
    assert isinstance(found, Rejection)
    result = run_post_filter_plugins(profile, found, world, 0.0)
    assert not result.nominated_node
    assert "Reservation(s)" not in result.message
