"""Devices on a real kube-apiserver, with the stock kube-controller-manager.

``holdfast scheduler`` runs with its rights in deploy/rbac and without Holdfast's controllers. No
kubelet or driver runs: the test publishes slices, reports conditions and ends pods.
"""

import json
from collections import Counter

import pytest

from holdfast.testing import (
    a_claim,
    a_claim_template,
    a_deployment,
    a_device,
    a_device_class,
    a_namespace,
    a_node,
    a_pod,
    a_slice,
    a_taint_rule,
)
from real.control_plane import program
from real.programs import create, create_nodes, holdfast, kube_controller_manager, run_pod, until

pytestmark = pytest.mark.real
SPACE = "devices"
HERE = {"pool": "devices"}
GPU = "kep-5004.example.com/gpu"
DRIVER = "kep-5004.example.com"
NODES = ("gpu-plugin", "gpu-dra")
SPECIAL = "resource.kubernetes.io/extended-resource-claim"
FINALIZER = "resource.kubernetes.io/delete-protection"
FLAGS = ("--no-controllers", "--no-leader-elect", "--feature-gates", "DRADeviceTaintRules=true")
# A scheduler that creates a claim and can then neither complete nor delete it: when it is killed,
# it leaves what one leaves that crashes after the creation.
STUCK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: stuck-claims}
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [resource.k8s.io]
      apiVersions: [v1]
      operations: [UPDATE, DELETE]
      resources: [resourceclaims, resourceclaims/status]
  validations:
  - expression: >-
      !request.userInfo.username.endsWith(":holdfast-scheduler")
      && (request.name != "stuck-probe" || request.operation == "DELETE")
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: stuck-claims}
spec: {policyName: stuck-claims, validationActions: [Deny]}
"""


class Devices:
    """kubectl in the namespace of this test."""

    def __init__(self, plane):
        self.plane = plane

    def kubectl(self, *arguments, **more):
        return self.plane.kubectl(*arguments, "-n", SPACE, **more)

    def items(self, kind):
        return json.loads(self.kubectl("get", kind, "-o", "json"))["items"]

    def pods(self):
        """Return the names of the pods on each node."""
        found = {name: set() for name in (*NODES, "")}
        for pod in self.items("pods"):
            found[pod["spec"].get("nodeName", "")].add(pod["metadata"]["name"])
        return found

    def pod_counts(self):
        return tuple(len(names) for names in self.pods().values())

    def claims(self):
        return {claim["metadata"]["name"]: claim for claim in self.items("resourceclaims")}

    def node_of(self, pod):
        return self.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")

    def message(self, pod):
        path = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}"
        return self.kubectl("get", "pod", pod, "-o", path)

    def devices_of(self, claim):
        """Return the devices that are allocated to a claim."""
        allocation = self.claims()[claim].get("status", {}).get("allocation")
        return allocation and [result["device"] for result in allocation["devices"]["results"]]

    def remove(self, *pods):
        """Delete pods as their kubelets would."""
        self.kubectl("delete", "pod", *pods, "--grace-period=0", "--force")

    def create(self, *objects):
        create(self.plane, *objects)


@pytest.fixture(scope="module")
def plane(control_plane):
    """Two nodes: a device plugin serves one, a DRA driver the other."""
    if program("kube-controller-manager") is None:
        pytest.fail("kube-controller-manager not found: run `make binaries` (needs Go) first")
    create(control_plane, a_namespace(SPACE))
    create_nodes(
        control_plane,
        a_node(NODES[0], labels=HERE, allocatable={GPU: "2"}),
        a_node(NODES[1], labels=HERE),
    )
    yield control_plane
    control_plane.kubectl("delete", "namespace", SPACE, "--wait=false")
    control_plane.kubectl("delete", "node", *NODES)
    for kind in ("deviceclass", "resourceslice", "devicetaintrule"):
        control_plane.kubectl("delete", kind, "-l", "test=devices")


@pytest.fixture(scope="module")
def controllers(plane, tmp_path_factory):
    with kube_controller_manager(plane, tmp_path_factory.mktemp("controllers")):
        yield


@pytest.fixture
def devices(plane, controllers):
    return Devices(plane)


def labelled(obj):
    obj["metadata"]["labels"] = {"test": "devices"}
    return obj


def pod(name, claim):
    entry = {"name": "dev", **claim}
    return a_pod(name, namespace=SPACE, node_selector=HERE, resource_claims=[entry])


def user(name, claim):
    return pod(name, {"resourceClaimName": claim})


def test_D056_D068_D072_a_deployment_on_nodes_with_a_device_plugin_and_with_a_driver(
    devices, scheduler_kubeconfig, tmp_path
):
    """KEP-5004's example; the first scheduler is killed after it has created claims."""
    devices.plane.kubectl("apply", "-f", "-", text=STUCK)
    devices.create(a_claim("stuck-probe", namespace=SPACE, device_class="none"))
    denied = ("label", "resourceclaim", "stuck-probe", "--dry-run=server", "a=b", "--overwrite")
    until(lambda: devices.kubectl(*denied, check=False), "")
    gpu = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    devices.create(
        labelled(a_device_class("gpu.kep-5004", driver=DRIVER, extended_resource_name=GPU)),
        labelled(a_slice("gpu-dra-gpus", driver=DRIVER, node=NODES[1], devices=2)),
        a_deployment("gpu", replicas=5, namespace=SPACE, cpu="1", node_selector=HERE, **gpu),
    )
    until(devices.pod_counts, (0, 0, 5))
    scheduler = ("scheduler", scheduler_kubeconfig, tmp_path, *FLAGS)
    with holdfast(*scheduler, killed=True):
        until(devices.pod_counts, (2, 0, 3))
        until(lambda: len(devices.claims()) > 1)
    left = set(devices.claims()) - {"stuck-probe"}
    assert left
    devices.plane.kubectl("delete", "-f", "-", text=STUCK)
    devices.kubectl("delete", "resourceclaim", "stuck-probe")

    with holdfast(*scheduler):
        until(devices.pod_counts, (2, 2, 1))
        until(lambda: len(devices.claims()), 2)
        assert not left & devices.claims().keys()
        assert_special_claims(devices)
        (waiting,) = devices.pods()[""]
        until(lambda: f"1 Insufficient {GPU}, 1 cannot allocate all" in devices.message(waiting))
        # A pod that has ended frees its device, for the waiting pod or the one in its place.
        ended = min(devices.pods()[NODES[1]])
        phase = json.dumps({"status": {"phase": "Succeeded"}})
        devices.kubectl("patch", "pod", ended, "--subresource=status", "-p", phase)
        until(devices.pod_counts, (2, 3, 1))
        until(lambda: len(devices.claims()), 2)
        devices.kubectl("delete", "deployment", "gpu")
        until(lambda: all("deletionTimestamp" in p["metadata"] for p in devices.items("pods")))
        names = [p["metadata"]["name"] for p in devices.items("pods")]
        devices.remove(*names)
        until(devices.claims, {})
        until(devices.pod_counts, (0, 0, 0))


def assert_special_claims(devices):
    """Every pod of the node with a driver has one claim, as D052 describes; other pods none."""
    served = {}
    for found in devices.items("pods"):
        status = found["status"].get("extendedResourceClaimStatus")
        assert (status is not None) == (found["spec"].get("nodeName") == NODES[1])
        if status is not None:
            served[status["resourceClaimName"]] = found
            (mapping,) = status["requestMappings"]
            assert mapping["resourceName"] == GPU
            assert mapping["containerName"] == found["spec"]["containers"][0]["name"]
    claims = devices.claims()
    assert claims.keys() == served.keys()
    for name, claim in claims.items():
        metadata, uid = claim["metadata"], served[name]["metadata"]["uid"]
        assert metadata["annotations"][SPECIAL] == "true"
        assert FINALIZER in metadata["finalizers"]
        (owner,) = metadata["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)
        (consumer,) = claim["status"]["reservedFor"]
        assert consumer["uid"] == uid
        # The second of the container's resources by name: cpu comes first.
        (request,) = claim["spec"]["devices"]["requests"]
        assert request["name"] == "container-0-request-1"
    used = Counter(device for name in claims for device in devices.devices_of(name))
    assert used == {"gpu-0": 1, "gpu-1": 1}


def test_claims_partitions_taint_rules_and_binding_conditions(
    devices, scheduler_kubeconfig, tmp_path
):
    driver, node = "parts.example.com", NODES[1]
    half, whole = ({"counterSet": "card", "counters": {"gb": {"value": v}}} for v in ("4", "8"))
    pool = {"driver": driver, "node": node, "pool": "parts", "slices": 2}
    card = [{"name": "card", "counters": {"gb": {"value": "8"}}}]
    counters = labelled(a_slice("parts-counters", **pool, shared_counters=card))
    del counters["spec"]["devices"]
    devices.create(
        labelled(a_device_class("parts", driver=driver)),
        labelled(a_device_class("slow", driver="slow.example.com")),
        counters,
        labelled(
            a_slice(
                "parts-devices",
                devices=[
                    a_device("whole", attributes={"kind": "whole"}, consumes_counters=[whole]),
                    a_device("half-0", attributes={"kind": "half"}, consumes_counters=[half]),
                    a_device("half-1", attributes={"kind": "half"}, consumes_counters=[half]),
                ],
                **pool,
            )
        ),
        labelled(
            a_slice(
                "slow",
                driver="slow.example.com",
                node=node,
                devices=[a_device("slow-0", binding_conditions=["example.com/ready"],
                                  binding_failure_conditions=["example.com/failed"])],
            )
        ),
        labelled(a_taint_rule("devices", driver=driver, pool="parts", device="half-1")),
        a_claim("whole", namespace=SPACE, device_class="parts", selectors=[kind("whole")]),
        a_claim("slow", namespace=SPACE, device_class="slow"),
        a_claim_template("half", namespace=SPACE, device_class="parts", selectors=[kind("half")]),
    )  # fmt: skip
    scheduler = ("scheduler", scheduler_kubeconfig, tmp_path, *FLAGS)
    with holdfast(*scheduler, killed=True):
        devices.create(*(pod(name, {"resourceClaimTemplateName": "half"}) for name in ("h0", "h1")))
        devices.create(user("slow", "slow"))
        until(lambda: devices.devices_of("slow"), ["slow-0"])
        until(lambda: sorted(map(devices.node_of, ("h0", "h1"))), ["", node])
    waiting = next(name for name in ("h0", "h1") if not devices.node_of(name))
    assert devices.node_of("slow") == ""

    with holdfast(*scheduler):
        until(lambda: "cannot allocate all claims" in devices.message(waiting))
        devices.kubectl("delete", "devicetaintrule", "devices")
        until(lambda: devices.node_of(waiting), node)
        devices.create(user("whole", "whole"))
        until(lambda: "cannot allocate all claims" in devices.message("whole"))
        devices.remove("h0", "h1")
        until(lambda: devices.node_of("whole"), node)
        assert devices.node_of("slow") == ""
        report(devices, "slow", "slow-0", "example.com/ready")
        until(lambda: devices.node_of("slow"), node)
        run_pod(devices.plane, SPACE, "slow")
        devices.remove("slow", "whole")
        # kube-controller-manager frees the claims of a user, and deletes those of templates.
        until(lambda: {name: devices.devices_of(name) for name in devices.claims()},
              {"whole": None, "slow": None})  # fmt: skip


def kind(name):
    return f'device.attributes["parts.example.com"].kind == "{name}"'


def report(devices, claim, device, condition):
    """Write a condition of a device, as its driver does."""
    (result,) = devices.claims()[claim]["status"]["allocation"]["devices"]["results"]
    entry = {key: result[key] for key in ("driver", "pool", "device")}
    entry["conditions"] = [
        {
            "type": condition,
            "status": "True",
            "reason": "Prepared",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    change = json.dumps({"status": {"devices": [entry]}})
    devices.kubectl(
        "patch", "resourceclaim", claim, "--subresource=status", "--type=merge", "-p", change
    )
