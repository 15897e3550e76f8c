"""Corner cases in which kube-scheduler's decision is surprising.

Found by comparing with its own code over random snapshots (tests/real/README.md); each is what
was left of a snapshot once everything that did not matter was taken away.
"""

from cli.explain_requests import ask, node_of, verdicts
from holdfast.testing import a_claim, a_device_class, a_namespace, a_node, a_pod
from holdfast.testing.storage_builders import (
    a_csi_node,
    a_storage_class,
    a_volume,
    a_volume_claim,
    mounting,
)

U, UU = "Unschedulable", "UnschedulableAndUnresolvable"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NOWHERE = {"nodeSelector": {}}


def far_from(**term):
    term = {"topologyKey": HOST, "labelSelector": {}, **term}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def named(node):
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}


def preferring(value):
    wish = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": [value]}]}
    preferred = [{"weight": 1, "preference": wish}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def waiting_for(node, name="w", **more):
    return a_pod(name, status={"nominatedNodeName": node}, **more)


def test_an_empty_namespace_selector_matches_every_namespace():
    absent = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    answer = ask(
        a_node("n"), a_namespace("other", labels={"team": "x"}),
        a_pod("there", namespace="other", node="n"),
        a_pod("p", affinity=far_from(namespaceSelector=absent)),
    )  # fmt: skip
    why = ["node(s) didn't match pod anti-affinity rules"]
    assert verdicts(answer) == {"n": ("InterPodAffinity", U, why)}


def test_pods_nominated_to_a_node_count_in_its_reasons():
    answer = ask(
        a_node("n", cpu="2", pods=1), a_pod("there", node="n"), waiting_for("n"), a_pod("p")
    )
    why = ["Too many pods", "Insufficient cpu"]
    assert verdicts(answer) == {"n": ("NodeResourcesFit", U, why)}


def test_nominated_pods_of_another_scheduler_do_not_count():
    foreign = waiting_for("n", schedulerName="another")
    assert ask(a_node("n", cpu="1"), foreign, a_pod("p"))["best"] == ["n"]
    assert not ask(a_node("n", cpu="1"), waiting_for("n"), a_pod("p"))["schedulable"]


def test_the_nominated_node_is_filtered_even_if_the_pod_selects_another():
    answer = ask(
        a_node("n"), a_node("m", unschedulable=True),
        waiting_for("m", "p", affinity=named("gone")),
    )  # fmt: skip
    assert verdicts(answer) == {
        "n": (None, UU, ["node(s) didn't satisfy plugin(s) [NodeAffinity NodeUnschedulable]"]),
        "m": ("NodeUnschedulable", UU, ["node(s) were unschedulable"]),
    }


def test_an_invalid_preferred_term_fails_only_when_nodes_are_scored():
    objects = [a_node("n", labels={"size": "7"}, cpu="1"), a_pod("p", affinity=preferring("-5"))]
    assert 'running PreScore plugin "NodeAffinity": ' in ask(*objects)["error"]
    full = ask(*objects, a_pod("there", node="n"))
    assert verdicts(full) == {"n": ("NodeResourcesFit", U, ["Insufficient cpu"])}


def test_missing_devices_take_precedence_over_claims_of_other_nodes():
    uses = [{"name": c, "resourceClaimName": c} for c in ("new", "old")]
    answer = ask(
        a_node("n"), a_device_class(), a_claim("new"),
        a_claim("old", status={"allocation": NOWHERE}), a_pod("p", claims=uses), preempt=True,
    )  # fmt: skip
    assert verdicts(answer) == {"n": ("DynamicResources", UU, ["cannot allocate all claims"])}
    assert answer["preemption"]["message"].startswith("still not schedulable, ")


def test_an_allocated_claim_alone_adds_no_score():
    requests = [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}]
    results = [{"request": "r/s", "driver": "d", "pool": "p", "device": "x"}]
    held = a_claim("c", requests=requests, status={"allocation": {"devices": {"results": results}}})
    answer = ask(a_node("n"), held, a_pod("p", claims=[{"name": "c", "resourceClaimName": "c"}]))
    assert node_of(answer, "n")["scores"]["DynamicResources"]["weighted"] == 0


def test_a_migrated_disk_uses_the_zone_label_of_its_csi_driver():
    disk = a_volume("v", nodes={ZONE: "z"}, csi=None, gcePersistentDisk={"pdName": "v"})
    served = a_csi_node("served")
    served["metadata"]["annotations"] = {
        "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"
    }
    there = {ZONE: "z", "topology.gke.io/zone": "z"}
    answer = ask(
        a_node("plain", labels={ZONE: "z"}), a_node("served", labels={ZONE: "z"}),
        a_node("labelled", labels=there), served, disk, a_volume_claim(volume="v"),
        a_pod("p", volumes=mounting("data")),
    )  # fmt: skip
    why = ["node(s) didn't match PersistentVolume's node affinity"]
    assert verdicts(answer) == {"served": ("VolumeBinding", UU, why)}


def test_an_ephemeral_claim_of_another_pod_fails_pods_that_use_it():
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {}}}
    wrong = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    answer = ask(
        a_node("n"), a_csi_node("n", disk_example_com=5), a_volume("v"),
        a_volume_claim(volume="v"), a_volume_claim("there-v"),
        a_pod("there", node="n", volumes=wrong), a_pod("p", volumes=mounting("data")),
    )  # fmt: skip
    assert answer["error"] == (
        'running "NodeVolumeLimits" filter plugin: PVC default/there-v was not created for pod '
        "default/there (pod is not owner)"
    )


def test_a_claim_mounted_twice_needs_capacity_twice():
    driver = {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": "disk.example.com"}, "spec": {"storageCapacity": True},
    }  # fmt: skip
    objects = [a_node("n"), a_storage_class(), driver, a_volume("v"), a_volume_claim()]
    assert ask(*objects, a_pod("p", volumes=mounting("data")))["schedulable"]
    again = [*mounting("data"), {**mounting("data")[0], "name": "again"}]
    why = ["node(s) did not have enough free storage"]
    answer = ask(*objects, a_pod("p", volumes=again))
    assert verdicts(answer) == {"n": ("VolumeBinding", UU, why)}


def test_a_read_write_once_pod_claim_is_free_after_one_of_its_users_is_evicted():
    answer = ask(
        a_node("n"), a_node("m"), a_volume("v"),
        a_volume_claim(volume="v", mode="ReadWriteOncePod"),
        a_pod("a", node="n", volumes=mounting("data")),
        a_pod("b", node="m", volumes=mounting("data")),
        a_pod("p", volumes=mounting("data"), priority=1), preempt=True,
    )  # fmt: skip
    assert [c["victims"] for c in answer["preemption"]["candidates"]] == [
        ["default/a"], ["default/b"],
    ]  # fmt: skip


def test_a_terminating_pod_allows_more_spread_than_it_used():
    spread = [{
        "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }]  # fmt: skip
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    answer = ask(
        a_node("n"), a_node("m", pods=0),
        a_pod("going", node="n", labels={"app": "x"}, metadata=going),
        a_pod("there", node="n", labels={"app": "x"}, priority=5),
        a_pod("p", labels={"app": "x"}, topologySpreadConstraints=spread, priority=10),
        preempt=True,
    )  # fmt: skip
    assert answer["preemption"]["victims"] == ["default/going"]
