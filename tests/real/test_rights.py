"""Scheduler and controllers need exactly the rights in deploy/rbac, by the audit log.

Every way to use a right is taken once. A right that was not granted is a refused request, and one
that was never used is in the role but not in the log.
"""

import json
from pathlib import Path

import pytest
import yaml

from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.api.koordinator_names import QOS_CLASS, RESOURCE_STATUS
from holdfast.api.reservation_names import PREEMPTOR
from holdfast.api.scheme import POD_MIGRATION_JOBS
from holdfast.testing import (
    a_claim,
    a_device,
    a_device_class,
    a_namespace,
    a_node,
    a_pod,
    a_priority_class,
    a_reservation,
    a_resource_policy,
    a_slice,
    a_storage_class,
    a_unit,
    a_volume,
    a_volume_claim,
    mounting,
)
from holdfast.testing.builders import an_object
from holdfast.testing.numa_builders import a_topology
from real.control_plane import SERVICE_ACCOUNT
from real.programs import create, create_nodes, holdfast, until
from rights import ALSO_NEEDED, rights_of_role

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
SPACE = "rights"
AFTER_CONFLICTS = {("dra.holdfast.dev", "resourceclaims", "get")}
"""Rights that are needed only if another client writes the same object at the same moment."""
AFTER_MINUTES = {("scheduling.koordinator.sh", "podmigrationjobs", "delete")}
"""Rights for what happens later than this test: a job is deleted 5 minutes after its ttl."""
HERE = {"pool": "rights"}
GPU = "rights.example.com/gpu"
NODES = ("right-0", "right-1", "right-2")
CLASSIC_CLAIMS = "resourceclaims.dra.holdfast.dev"
STALE_STATUS = {
    "driverName": "rights.example.com",
    "allocation": {"resourceHandle": "h"},
    "reservedFor": [{"resource": "pods", "name": "gone", "uid": "gone"}],
}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "Reservation",
                    "args": {
                        "gcDurationSeconds": 1,
                        "gcIntervalSeconds": 1,
                        "enableReservationForPreemptor": True,
                    },
                }
            ]
        }
    ],
}
# The writes that are to fail: the scheduler then undoes what it wrote, the controller tries again.
FAILING = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: rights}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/binding]}
    - apiGroups: [scheduling.koordinator.sh]
      apiVersions: [v1alpha1]
      operations: [CREATE, UPDATE]
      resources: [reservations, reservations/status]
  validations:
  - expression: >-
      request.resource.resource == "pods"
      ? !request.name.startsWith("failing")
      : !(request.name.startsWith("failing")
          && (request.operation == "CREATE"
              ? object.metadata.name == "failing-probe"
              : request.userInfo.username.endsWith(":holdfast-controllers")))
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: rights}
spec: {policyName: rights, validationActions: [Deny]}
"""


class Story:
    """kubectl in the namespace of this test."""

    def __init__(self, plane):
        self.plane = plane

    def create(self, *objects):
        create(self.plane, *objects)

    def kubectl(self, *arguments):
        return self.plane.kubectl(*arguments, "-n", SPACE)

    def field(self, kind, name, path):
        return self.plane.kubectl(
            "get", kind, name, "-n", SPACE, "--ignore-not-found", "-o", f"jsonpath={{{path}}}"
        )

    def patch(self, kind, name, change, *flags):
        change = json.dumps(change)
        self.kubectl("patch", kind, name, "--type=merge", "-p", change, *flags)

    def node_of(self, pod):
        return self.field("pod", pod, ".spec.nodeName")

    def phase(self, name):
        return self.field("reservation", name, ".status.phase")

    def event_count(self, name, reason):
        """Return the count of an object's event; events of reservations are in `default`."""
        found = self.plane.kubectl(
            "get",
            "events",
            "-A",
            "--field-selector",
            f"involvedObject.name={name},reason={reason}",
            "-o",
            "jsonpath={.items[*].count}",
        ).split()
        return max(map(int, found), default=0)


@pytest.fixture(scope="module")
def story(control_plane):
    plane = control_plane
    plane.kubectl("apply", "-f", str(ROOT / "deploy" / "crds"))
    plane.kubectl(
        "wait", "--for=condition=Established", "-f", str(ROOT / "deploy" / "crds"), "--timeout=30s"
    )
    plane.kubectl("apply", "-f", "-", text=FAILING)
    create(
        plane,
        a_namespace(SPACE),
        a_priority_class("rights-high", 1000),
        a_storage_class("rights-local", provisioner="kubernetes.io/no-provisioner"),
        a_storage_class("rights-disk", provisioner="disk.example.com"),
        a_device_class(
            "gpu.rights.example.com", driver="rights.example.com", extended_resource_name=GPU
        ),
    )
    create_nodes(plane, *(a_node(name, cpu="16", labels=HERE) for name in NODES))
    probe = json.dumps(a_reservation("failing-probe", cpu="1"))
    denied = ("create", "--dry-run=server", "-f", "-")
    until(lambda: plane.kubectl(*denied, text=probe, check=False), "")
    yield Story(plane)
    plane.kubectl("delete", "-f", "-", text=FAILING)
    plane.kubectl("delete", "pod", "--all", "-n", SPACE, "--grace-period=0", "--force")
    plane.kubectl("delete", "podmigrationjob", "--all")
    plane.kubectl("delete", "reservation", "--all")
    plane.kubectl("delete", "node", *NODES)
    plane.kubectl("delete", "noderesourcetopology", NODES[1], "--ignore-not-found")


def used_since(plane, account, start):
    """Return the rights that the requests of a service account have used."""
    used = set()
    for entry in plane.requests()[start:]:
        what = entry.get("objectRef")
        if entry["user"]["username"] != SERVICE_ACCOUNT + account or what is None:
            continue
        assert entry["responseStatus"]["code"] != 403, entry
        part = f"/{what['subresource']}" if "subresource" in what else ""
        right = (what.get("apiGroup", ""), what["resource"] + part, entry["verb"])
        used |= {right, ALSO_NEEDED.get(right, right)}
        if "sendInitialEvents=true" in entry["requestURI"]:
            # An API server without streaming lists is asked for a list instead.
            used.add((*right[:2], "list"))
        if what["resource"] == "leases" and entry["verb"] != "create":
            assert what["name"] in rights_of_role(account)[right]
    return used


def assert_exact(plane, account, start):
    used, granted = used_since(plane, account, start), rights_of_role(account).keys()
    assert not granted - used - AFTER_CONFLICTS - AFTER_MINUTES, "granted, but never used"
    assert not used - granted, "used, but granted by another role only"


def pod(name, node, cpu="1", **more):
    selector = HERE | {"kubernetes.io/hostname": node}
    return a_pod(name, namespace=SPACE, cpu=cpu, node_selector=selector, **more)


def bound(name, annotations=None):
    return a_pod(
        name, namespace=SPACE, labels={"app": "rights"}, node=NODES[0], annotations=annotations
    )


def test_the_scheduler_uses_every_right_that_it_has(story, scheduler_kubeconfig, tmp_path):
    story.plane.kubectl(
        "delete", "lease", "kube-scheduler", "-n", "kube-system", "--ignore-not-found"
    )
    start = len(story.plane.requests())
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    flags = ("--feature-gates", "DRADeviceTaintRules=true", "--config", config)
    with holdfast("scheduler", scheduler_kubeconfig, tmp_path, "--no-controllers", *flags):
        bind_volumes(story)
        allocate_devices(story)
        place_reservations(story)
        preempt(story)
        negotiate(story)
        until(lambda: story.event_count("failing-gpu", "FailedScheduling") > 1)
    assert_exact(story.plane, "holdfast-scheduler", start)


def bind_volumes(story):
    """The scheduler chooses volumes; the test binds them, as controller and provisioner do."""
    story.create(
        a_volume("rights-disk", storage_class="rights-local", nodes=HERE),
        a_volume_claim("static", namespace=SPACE, storage_class="rights-local"),
        a_volume_claim("dynamic", namespace=SPACE, storage_class="rights-disk"),
    )
    story.patch("pv", "rights-disk", {"status": {"phase": "Available"}}, "--subresource=status")
    story.create(
        pod("static", NODES[0], volumes=mounting("static")),
        pod("dynamic", NODES[0], volumes=mounting("dynamic")),
    )
    until(lambda: story.field("pv", "rights-disk", ".spec.claimRef.name"), "static")
    selected = r".metadata.annotations.volume\.kubernetes\.io/selected-node"
    until(lambda: story.field("pvc", "dynamic", selected), NODES[0])
    story.create(a_volume("rights-made", storage_class="rights-disk", nodes=HERE))
    for claim, volume in (("static", "rights-disk"), ("dynamic", "rights-made")):
        done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        story.patch("pvc", claim, {"metadata": done, "spec": {"volumeName": volume}})
        until(lambda pod=claim: story.node_of(pod), NODES[0])


def allocate_devices(story):
    """Allocate a claim and an extended resource; undo that for a pod that cannot be bound."""
    devices = [a_device(f"gpu-{i}") for i in range(3)]
    story.create(
        a_slice("rights-gpus", driver="rights.example.com", node=NODES[1], devices=devices),
        a_claim("claim", namespace=SPACE, device_class="gpu.rights.example.com"),
    )
    gpu = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    story.create(
        pod("claiming", NODES[1], claims=[{"name": "gpu", "resourceClaimName": "claim"}]),
        pod("gpu", NODES[1], **gpu),
        pod("failing-gpu", NODES[1], **gpu),
    )
    until(lambda: story.node_of("claiming"), NODES[1])
    until(lambda: story.node_of("gpu"), NODES[1])
    until(lambda: story.event_count("failing-gpu", "FailedScheduling") > 0)
    story.create(pod("early", NODES[1], claims=[{"name": "gpu", "resourceClaimName": "absent"}]))
    until(lambda: story.event_count("early", "NotReadyForScheduling") > 0)


def negotiate(story):
    """Let the scheduler choose a node twice; the test allocates, as a driver does."""
    kinds = {"apiVersion": "dra.holdfast.dev/v1alpha1"}
    meta = {"name": "rights", "namespace": SPACE}
    entry = {"name": "x", "claim": {"resourceClaimName": "rights"}}
    story.create(
        {**kinds, "kind": "ResourceClass", "metadata": {"name": "rights"}, "driverName": "d"},
        {**kinds, "kind": "ResourceClaim", "metadata": meta,
         "spec": {"resourceClassName": "rights"}},
        a_pod("negotiating", namespace=SPACE, node_selector=HERE,
              annotations={POD_CLAIMS: json.dumps([entry])},
              claims=[{"name": "x", "resourceClaimName": "negotiating-shadow"}]),
    )  # fmt: skip

    def selected():
        return story.field("podscheduling", "negotiating", ".spec.selectedNode")

    until(lambda: selected() != "")
    first = selected()
    answer = {"podResourceClaimName": "x", "unsuitableNodes": [first]}
    change = {"status": {"claims": [answer]}}
    story.patch("podscheduling", "negotiating", change, "--subresource=status")
    until(lambda: selected() not in ("", first))
    allocated = {"driverName": "d", "allocation": {"resourceHandle": "h"}}
    claim = "resourceclaim.dra.holdfast.dev"
    story.patch(claim, "rights", {"status": allocated}, "--subresource=status")
    until(lambda: story.node_of("negotiating") in NODES)
    until(lambda: story.field("podscheduling", "negotiating", ".metadata.name"), "")
    assert story.field(claim, "rights", ".status.reservedFor[0].name") == "negotiating"
    reserved = story.field(
        "resourceclaim.resource.k8s.io", "negotiating-shadow", ".status.reservedFor"
    )
    assert "negotiating" in reserved


def place_reservations(story):
    """Place one, with CPUs of its own, reject one, and pre-allocate a running pod."""
    owner = {"owner_labels": {"app": "rights"}}
    on = {"node_selector": HERE | {"kubernetes.io/hostname": NODES[2]}}
    story.create(
        pod("filler", NODES[2], "12"),
        pod("running", NODES[2], "4", labels={"app": "rights"}),
        a_reservation("rights-large", cpu="99", **owner, template=on),
    )
    until(lambda: (story.node_of("filler"), story.node_of("running")), (NODES[2], NODES[2]))
    story.create(a_reservation("rights-waits", cpu="4", pre_allocation=True, **owner, template=on))
    until(lambda: story.phase("rights-waits"), "Waiting")
    scheduled = ".status.conditions[?(@.type=='Scheduled')].reason"
    until(lambda: story.field("reservation", "rights-large", scheduled), "Unschedulable")
    cores = a_reservation(
        "rights-cores",
        cpu="2",
        labels={QOS_CLASS: "LSR"},
        **owner,
        template={"node_selector": HERE},
    )
    story.create(a_topology(NODES[1]), cores)
    until(lambda: story.phase("rights-cores"), "Available")
    status = RESOURCE_STATUS.replace(".", "\\.")
    cpus = story.field("reservation", "rights-cores", f".metadata.annotations.{status}")
    assert json.loads(cpus) == {"cpuset": "0-1"}


def preempt(story):
    story.create(pod("low", NODES[0], "10"))
    until(lambda: story.node_of("low"), NODES[0])
    story.create(pod("high", NODES[0], "12", priority_class_name="rights-high"))
    until(lambda: story.field("pod", "low", ".metadata.deletionTimestamp") != "")
    story.kubectl("delete", "pod", "low", "--grace-period=0", "--force")
    # The test makes the reservation of the preemptor available, as the controllers do.
    made = story.kubectl("get", "reservation", "-l", PREEMPTOR, "-o", "name").strip()
    kind, _, name = made.partition("/")
    story.patch(kind, name, {"status": {"phase": "Available"}}, "--subresource=status")
    until(lambda: story.node_of("high"), NODES[0])


def test_the_controllers_use_every_right_that_they_have(
    story, scheduler_kubeconfig, controllers_kubeconfig, tmp_path
):
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    story.plane.kubectl(
        "delete", "lease", "holdfast-controllers", "-n", "kube-system", "--ignore-not-found"
    )
    gone = a_node("right-gone", cpu="4", labels=HERE)
    create_nodes(story.plane, gone)
    owner = {"owner_labels": {"app": "rights"}}
    on = {"node_selector": {"kubernetes.io/hostname": "right-gone"}}
    story.create(a_reservation("rights-orphan", cpu="1", ttl="1h", **owner, template=on))
    with holdfast("scheduler", scheduler_kubeconfig, tmp_path, "--no-controllers"):
        until(lambda: story.phase("rights-orphan"), "Available")
    story.create(classic_claim("stale"))
    story.patch(CLASSIC_CLAIMS, "stale", {"status": STALE_STATUS}, "--subresource=status")
    start = len(story.plane.requests())
    with holdfast("controllers", controllers_kubeconfig, tmp_path, "--config", config):
        story.plane.kubectl("delete", "node", "right-gone")
        story.create(
            a_reservation("rights-short", cpu="1", ttl="1s", **owner),
            a_reservation("failing-status", cpu="1", ttl="1s", **owner),
            a_resource_policy("rights", namespace=SPACE, units=[a_unit("here", 1, nodes=HERE)]),
            bound("costly"),
            bound("manual", {"controller.kubernetes.io/pod-deletion-cost": "7"}),
        )
        cost = r".metadata.annotations.controller\.kubernetes\.io/pod-deletion-cost"
        until(lambda: story.field("pod", "costly", cost), "100")
        until(lambda: story.event_count("manual", "DeletionCostManual"), 1)
        until(lambda: story.field("resourcepolicy", "rights", ".status.usage") != "")
        until(lambda: story.event_count("failing-status", "FailedReconcile") > 1)
        release_classic_claims(story)
        migrate_pods(story)
        for name in ("rights-short", "rights-orphan"):
            until(lambda name=name: story.field("reservation", name, ".metadata.name"), "")
    assert_exact(story.plane, "holdfast-controllers", start)


def a_migration(name, options=None, **more):
    """A job for the pod of its name."""
    spec = {"podRef": {"namespace": SPACE, "name": name}, **more}
    spec |= {"reservationOptions": options} if options else {}
    return an_object(POD_MIGRATION_JOBS, name, spec)


def migrate_pods(story):
    """Evict and delete pods; create a reservation, complete a given one, and miss another."""
    owner = {"apiVersion": "v1", "kind": "Set", "name": "s", "controller": True}
    evict = {"descheduler.alpha.kubernetes.io/evict": "true"}
    for name, labels in (
        ("evicted", {}),
        ("deleted", {"koordinator.sh/evict-policy": "Delete"}),
        ("moved", {}),
        ("given", {"app": "rights"}),
        ("misled", {}),
    ):
        metadata = {"ownerReferences": [{**owner, "uid": name}]}
        story.create(a_pod(name, namespace=SPACE, labels=labels, annotations=evict, node=NODES[0],
                           metadata=metadata))  # fmt: skip
    at_once = {"mode": "EvictDirectly", "deleteOptions": {"gracePeriodSeconds": 0}}
    story.create(
        a_reservation("rights-given", cpu="1", owner_labels={"app": "rights"}),
        a_migration("evicted", **at_once),
        a_migration("deleted", **at_once),
        a_migration("moved"),
        a_migration("given", {"reservationRef": {"name": "rights-given"}}),
        a_migration("misled", {"reservationRef": {"name": "absent"}}),
    )

    def ends(name):
        return story.field("podmigrationjob", name, ".status.phase")

    for name, phase in (("evicted", "Succeeded"), ("deleted", "Succeeded"), ("misled", "Failed")):
        until(lambda name=name: ends(name), phase)
    held = ".spec.reservationOptions.reservationRef.name"
    until(lambda: story.field("podmigrationjob", "moved", held) != "")
    order = r".metadata.labels.scheduling\.koordinator\.sh/reservation-order"
    until(lambda: story.field("reservation", "rights-given", order) != "")


def classic_claim(name):
    head = {"apiVersion": "dra.holdfast.dev/v1alpha1", "kind": "ResourceClaim"}
    spec = {"resourceClassName": "rights"}
    return {**head, "metadata": {"name": name, "namespace": SPACE}, "spec": spec}


def release_classic_claims(story):
    """Drop a pod that is gone; create a claim whose class is missing, and delete it."""
    entry = {"name": "gpu", "claim": {"template": {"spec": {"resourceClassName": "missing"}}}}
    story.create(a_pod("classic", namespace=SPACE, annotations={POD_CLAIMS: json.dumps([entry])}))
    until(lambda: story.field(CLASSIC_CLAIMS, "stale", ".status.reservedFor"), "")
    until(lambda: story.field(CLASSIC_CLAIMS, "classic-gpu", ".metadata.name"), "classic-gpu")
    until(lambda: story.event_count("classic", "ResourceClassNotFound"), 1)
    story.patch("pod", "classic", {"status": {"phase": "Succeeded"}}, "--subresource=status")
    until(lambda: story.field(CLASSIC_CLAIMS, "classic-gpu", ".metadata.name"), "")


def test_no_right_is_wider_than_it_says(control_plane, scheduler_kubeconfig):
    for verb, what, namespace in (
        ("create", "pods", "default"),
        ("get", "secrets", "kube-system"),
        ("update", "leases.coordination.k8s.io/kube-controller-manager", "kube-system"),
        ("create", "leases.coordination.k8s.io", "default"),
        ("delete", "nodes", ""),
    ):
        said = control_plane.kubectl(
            "auth",
            "can-i",
            verb,
            what,
            "-n",
            namespace or "default",
            "--as",
            SERVICE_ACCOUNT + "holdfast-scheduler",
            check=False,
        )
        assert said.strip() == "no", (verb, what)
