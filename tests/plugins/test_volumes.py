"""Pods are scheduled to nodes that can use their volumes."""

import pytest

from holdfast.runtime.errors import NotFound
from holdfast.scheduling.framework.plugin import Placement
from holdfast.testing import (
    a_csi_node,
    a_node,
    a_pod,
    a_storage_class,
    a_volume,
    a_volume_claim,
    mounting,
    typed,
)
from plugins.deciding import a_world, feasible_nodes, node_of, outcome

ZONE = "topology.kubernetes.io/zone"
STATIC = a_storage_class("static", provisioner="kubernetes.io/no-provisioner")


def zoned(*zones):
    return [a_node(f"n{i}", labels={ZONE: zone}) for i, zone in enumerate(zones, 1)]


def using(*claims, name="p"):
    return a_pod(name, volumes=mounting(*claims))


def test_a_pod_runs_where_its_bound_volume_can_be_used():
    volume = a_volume("v", nodes={ZONE: "b"}, phase="Bound")
    world = a_world(*zoned("a", "b", "b"), volume, a_volume_claim("data", volume="v"))
    assert feasible_nodes(world, using("data")) == {"n2", "n3"}
    gone = typed(volume)
    world.delete(gone)
    assert outcome(world, using("data")).message() == (
        '0/3 nodes are available: persistentvolume "v" not found.'
    )


def test_a_node_needs_a_free_volume_that_is_large_enough():
    world = a_world(
        *zoned("a", "b", "c"), STATIC, a_volume_claim("data", storage_class="static", size="5Gi"),
        a_volume("small", storage_class="static", size="1Gi", nodes={ZONE: "a"}),
        a_volume("large", storage_class="static", size="9Gi", nodes={ZONE: "b"}),
        a_volume("held", storage_class="static", nodes={ZONE: "c"},
                 claim_ref={"namespace": "default", "name": "other"}),
    )  # fmt: skip
    assert feasible_nodes(world, using("data")) == {"n2"}
    cordoned = typed(a_node("n2", labels={ZONE: "b"}, unschedulable=True))
    world.upsert(cordoned)
    assert outcome(world, using("data")).message() == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't find available "
        "persistent volumes to bind."
    )


def test_two_claims_of_a_pod_need_two_volumes_of_one_node():
    claims = [a_volume_claim(n, storage_class="static", size=s) for n, s in
              (("big", "5Gi"), ("small", "1Gi"))]  # fmt: skip
    volumes = [
        a_volume(name, storage_class="static", size=size, nodes={ZONE: zone})
        for name, size, zone in (
            ("a1", "9Gi", "a"), ("b1", "9Gi", "b"), ("b2", "6Gi", "b"), ("c1", "2Gi", "c"),
        )
    ]  # fmt: skip
    world = a_world(*zoned("a", "b", "c"), STATIC, *claims, *volumes)
    pod = using("big", "small")
    assert feasible_nodes(world, pod) == {"n2"}
    placement = outcome(world, pod)
    row_volumes = placement.plans["VolumeBinding"].row_volumes
    chosen = {
        claim.name: volume.name for volume, claim in row_volumes.static_bindings(placement.row)
    }
    # The smaller claim chooses first, and takes the smallest volume that will do.
    assert chosen == {"small": "b2", "big": "b1"}


def test_allowed_topologies_restrict_provisioning():
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "c"]}]}]
    world = a_world(
        *zoned("a", "b", "c"), a_storage_class(allowed_topologies=allowed), a_volume_claim("data")
    )
    assert feasible_nodes(world, using("data")) == {"n1", "n3"}


def test_an_assumed_volume_is_not_assumed_twice():
    volume = a_volume("v", storage_class="static")
    claims = [a_volume_claim(name, storage_class="static") for name in ("one", "two")]
    world = a_world(*zoned("a"), STATIC, volume, *claims)
    placement = outcome(world, using("one", name="first"))
    plan = placement.plans["VolumeBinding"]
    assert plan.reserve(placement) is None
    assert "didn't find available" in outcome(world, using("two", name="second")).message()
    plan.unreserve(placement)
    assert isinstance(outcome(world, using("two", name="second")), Placement)


def test_a_reserve_pod_assumes_no_volumes():
    claim = a_volume_claim("one", storage_class="static")
    world = a_world(*zoned("a"), STATIC, a_volume("v", storage_class="static"), claim)
    found = outcome(world, using("one"))
    stand_in = Placement(
        world.pod_info(found.pod.pod, is_reserve_pod=True), found.row, "n1", found.plans
    )
    found.plans["VolumeBinding"].reserve(stand_in)
    assert world.volumes.assumed(stand_in.pod.uid) is None


def test_nodes_have_attach_limits():
    volumes = [a_volume(f"v{i}", phase="Bound") for i in range(3)]
    claims = [a_volume_claim(f"c{i}", volume=f"v{i}") for i in range(3)]
    world = a_world(
        *zoned("a", "b"), a_csi_node("n1", disk_example_com=1), a_csi_node("n2"), *volumes, *claims,
        a_pod("there", node="n1", volumes=mounting("c0")),
    )  # fmt: skip
    assert feasible_nodes(world, using("c1")) == {"n2"}
    assert feasible_nodes(world, using("c0")) == {"n1", "n2"}
    world.upsert(typed(a_csi_node("n1", disk_example_com=2)))
    assert feasible_nodes(world, using("c1")) == {"n1", "n2"}
    assert feasible_nodes(world, using("c1", "c2")) == {"n2"}
    world.delete(typed(a_pod("there", node="n1")))
    assert feasible_nodes(world, using("c1", "c2")) == {"n1", "n2"}


def test_a_read_write_once_pod_claim_has_one_user():
    claim = a_volume_claim("solo", mode="ReadWriteOncePod", volume="v")
    world = a_world(*zoned("a", "b"), a_volume("v", phase="Bound"), claim)
    assert feasible_nodes(world, using("solo")) == {"n1", "n2"}
    first = a_pod("first", node="n1", volumes=mounting("solo"))
    world.upsert(typed(first))
    assert outcome(world, using("solo")).message() == (
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with "
        "ReadWriteOncePod access mode already in-use by another pod."
    )
    world.delete(typed(first))
    assert feasible_nodes(world, using("solo")) == {"n1", "n2"}


def test_volumes_that_restrict_no_node_make_no_class():
    world = a_world(a_node("n1"))
    spec_keys = {
        world.pod_info(
            typed(a_pod(name, volumes=[{"name": f"token-{name}", "projected": {}}]))
        ).spec_key
        for name in ("a", "b")
    }
    assert len(spec_keys) == 1
    own = {
        world.pod_info(typed(a_pod(name, volumes=[{"name": "scratch", "ephemeral": {}}]))).spec_key
        for name in ("a", "b")
    }
    assert len(own) == 2


def test_an_ephemeral_volume_needs_its_own_claim():
    pod = a_pod("p", volumes=[{"name": "scratch", "ephemeral": {}}])
    world = a_world(a_node("n1"), a_storage_class())
    assert outcome(world, pod).message() == (
        "0/1 nodes are available: waiting for ephemeral volume controller to create the "
        'persistentvolumeclaim "p-scratch".'
    )
    claim = a_volume_claim("p-scratch")
    world.upsert(typed(claim))
    assert outcome(world, pod).message() == (
        "0/1 nodes are available: PVC default/p-scratch was not created for pod default/p "
        "(pod is not owner)."
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": typed(pod).uid,
             "controller": True}  # fmt: skip
    world.upsert(typed(claim, owner_references=[owner]))
    assert node_of(world, pod) == "n1"


def test_a_node_must_declare_the_features_a_pod_needs():
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    pod = a_pod()
    pod["spec"]["containers"][0]["restartPolicyRules"] = [rule]
    able = a_node("able")
    able["status"]["declaredFeatures"] = ["RestartAllContainersOnContainerExits"]
    world = a_world(able, a_node("plain"))
    assert feasible_nodes(world, pod) == {"able"}
    assert feasible_nodes(world, a_pod()) == {"able", "plain"}
    users = a_pod(host_network=True, host_users=False)
    assert outcome(world, users).message() == (
        "0/2 nodes are available: 2 node(s) didn't match Pod's required features."
    )


class Server:
    """Answers a plugin's calls from a dictionary."""

    def __init__(self, **objects):
        self.objects = objects
        self.slept = 0.0
        self.on_sleep = lambda: None
        self.calls = []

    def run(self, steps):
        answer = next(steps)
        while True:
            self.calls.append(answer)
            try:
                answer = self.carry_out(answer, steps)
            except StopIteration:
                return

    def carry_out(self, call, steps):
        if call.verb == "sleep":
            self.slept += call.body
            self.on_sleep()
            return steps.send(None)
        name = call.path.rpartition("/")[2]
        if name not in self.objects:
            return steps.throw(NotFound(f'"{name}" not found'))
        return steps.send(self.objects[name])


def binding(claim, *others):
    world = a_world(*zoned("a"), STATIC, a_storage_class(), claim, *others)
    placement = outcome(world, using("data"))
    plan = placement.plans["VolumeBinding"]
    plan.reserve(placement)
    return world, placement, lambda: plan.pre_bind(placement)


def test_a_claim_ref_is_written_and_the_pod_waits_until_bound():
    claim, volume = a_volume_claim("data", storage_class="static"), a_volume(
        "v", storage_class="static"
    )  # fmt: skip
    world, placement, pre_bind = binding(claim, volume)
    bound = a_volume("v", claim_ref={"namespace": "default", "name": "data", "uid": "u"})
    server = Server(p=a_pod("p"), v=bound, data=claim)

    def bind_after_three():
        if server.slept == 3:
            server.objects["data"] = a_volume_claim("data", volume="v")

    server.on_sleep = bind_after_three
    server.run(pre_bind())
    assert server.slept == 3
    write = server.calls[0]
    assert (write.verb, write.path) == ("patch", "/api/v1/persistentvolumes/v")
    assert write.body["spec"]["claimRef"] == {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
        "name": "data", "uid": "uid-persistentvolumeclaim-default-data", "resourceVersion": "1",
    }  # fmt: skip
    assert write.body["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert world.volumes.assumed(placement.pod.uid) is None


def test_a_claim_without_a_volume_gets_a_selected_node():
    world, _, pre_bind = binding(a_volume_claim("data"))
    marks = {"volume.kubernetes.io/selected-node": "n1"}
    made = a_volume_claim("data", volume="v", annotations=marks)
    server = Server(p=a_pod("p"), data=made, v=a_volume("v"))
    server.run(pre_bind())
    assert server.calls[0].body["metadata"]["annotations"] == marks
    assert world.volumes.claim("default", "data").selected_node == "n1"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"p": None}, "pod does not exist any more"),
        ({"data": a_volume_claim("data", annotations={"other": "x"})},
         'provisioning failed for PVC "data"'),
        ({"data": a_volume_claim("data")}, 'selectedNode annotation reset for PVC "data"'),
        ({}, "context deadline exceeded"),
    ],
)  # fmt: skip
def test_a_failed_volume_binding_fails_the_attempt(found, words):
    _, _, pre_bind = binding(a_volume_claim("data"))
    marks = {"volume.kubernetes.io/selected-node": "n1"}
    objects = {"p": a_pod("p"), "data": a_volume_claim("data", annotations=marks)} | found
    server = Server(**{name: raw for name, raw in objects.items() if raw is not None})
    with pytest.raises(Exception, match=f"^binding volumes: {words}"):
        server.run(pre_bind())
    assert server.slept == (600 if not found else 1)
