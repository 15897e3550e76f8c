"""A small valid object of every stored kind, and a valid change of it.

Each row is (apiVersion, kind, object without apiVersion and kind, merge patch). The patch is empty
for a kind of which only the metadata may change.
"""

import base64
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from apiserver.widgets import definition


def _certificate_request() -> str:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sample")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


_POD = {"containers": [{"name": "c", "image": "nginx"}]}
_LABELS = {"app": "sample"}
_SELECTOR = {"matchLabels": _LABELS}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": _POD}
_REPLICAS = {"spec": {"replicas": 2}}
_RULES = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
           "operations": ["CREATE"]}]  # fmt: skip
_MATCH = {"resourceRules": _RULES}
_WEBHOOK = {"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore", "rules": _RULES,
            "clientConfig": {"url": "https://example.com/hook"}}  # fmt: skip
_RBAC = "rbac.authorization.k8s.io"
_VIEW = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "view"}
_USERS = {"subjects": [{"apiGroup": _RBAC, "kind": "User", "name": "ada"}]}
_READ = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
_EXACTLY = {"deviceClassName": "gpu.example.com", "count": 1, "allocationMode": "ExactCount"}
_CLAIM = {"devices": {"requests": [{"name": "gpu", "exactly": _EXACTLY}]}}
_VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
           "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/data"}}  # fmt: skip
VOLUME_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_JOB = {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}
_INGRESS = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
_SLICE = {"driver": "gpu.example.com", "nodeName": "n1",
          "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
          "devices": [{"name": "gpu-0"}]}  # fmt: skip
_ATTACHED = {"attacher": "csi.example.com", "nodeName": "n1",
             "source": {"persistentVolumeName": "sample"}}  # fmt: skip
_REQUESTS = {"resources": {"requests": {"cpu": "1"}}}
_IN_DEFAULT = {"object": {"namespace": "default"}, "labelSelector": _SELECTOR}
_OWNER = {"owners": [_IN_DEFAULT], "ttl": "1h", "template": {"spec": {
    "containers": [{"name": "c", "image": "nginx", **_REQUESTS}]}}}  # fmt: skip
_REQUEST = {"request": _certificate_request(), "signerName": "example.com/signer",
            "usages": ["digital signature"]}  # fmt: skip
_ADMISSION = "admissionregistration.k8s.io/v1"
_NET = "networking.k8s.io/v1"

_POD_OWNER = {
    "apiVersion": "v1", "kind": "Pod", "name": "sample", "controller": True, "uid": "1-2-3",
}  # fmt: skip
_ROWS: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("v1", "ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}),
    ("v1", "Endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.9"}]}]},
     {"subsets": [{"addresses": [{"ip": "10.0.0.8"}]}]}),
    ("v1", "Event", {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
                     "reason": "Testing", "message": "one", "type": "Normal"}, {"message": "two"}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
     {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}),
    ("v1", "Namespace", {}, {}),
    ("v1", "Node", {"spec": {"podCIDR": "10.1.0.0/24"}}, {"spec": {"unschedulable": True}}),
    ("v1", "PersistentVolume", {"spec": _VOLUME},
     {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
    ("v1", "PersistentVolumeClaim", {"spec": VOLUME_CLAIM}, {}),
    # As upstream, a pod without a service account cannot be replaced by its own manifest.
    ("v1", "Pod", {"spec": {**_POD, "serviceAccountName": "default"}},
     {"spec": {"containers": [{"name": "c", "image": "other"}]}}),
    ("v1", "PodTemplate", {"template": _TEMPLATE}, {"template": {"spec": {"hostname": "h"}}}),
    ("v1", "ReplicationController", {"spec": {"selector": _LABELS, "template": _TEMPLATE}},
     _REPLICAS),
    ("v1", "ResourceQuota", {"spec": {"hard": {"pods": "1"}}}, {"spec": {"hard": {"pods": "2"}}}),
    ("v1", "Secret", {"data": {"a": "MQ=="}}, {"data": {"a": "Mg=="}}),
    ("v1", "ServiceAccount", {}, {"automountServiceAccountToken": False}),
    ("v1", "Service", {"spec": {"selector": _LABELS, "ports": [{"port": 80}]}},
     {"spec": {"ports": [{"port": 81}]}}),
    ("apiregistration.k8s.io/v1", "APIService", {
        "spec": {"group": "metrics.example.com", "version": "v1", "groupPriorityMinimum": 100,
                 "versionPriority": 100}}, {"spec": {"versionPriority": 90}}),
    ("apps/v1", "ControllerRevision", {"revision": 1, "data": {"a": 1}}, {"revision": 2}),
    ("apps/v1", "DaemonSet", {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
     {"spec": {"minReadySeconds": 5}}),
    ("apps/v1", "Deployment", {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}}, _REPLICAS),
    ("apps/v1", "ReplicaSet", {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}}, _REPLICAS),
    ("apps/v1", "StatefulSet", {
        "spec": {"selector": _SELECTOR, "template": _TEMPLATE, "serviceName": "web"}}, _REPLICAS),
    ("events.k8s.io/v1", "Event", {
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/test",
        "reportingInstance": "i", "action": "Test", "reason": "Testing", "type": "Normal",
        "note": "one"}, {"note": "two"}),
    ("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "sample"},
        "maxReplicas": 3}}, {"spec": {"maxReplicas": 4}}),
    ("batch/v1", "CronJob", {"spec": {"schedule": "@daily", "jobTemplate": {"spec": _JOB}}},
     {"spec": {"suspend": True}}),
    ("batch/v1", "Job", {"spec": _JOB}, {"spec": {"parallelism": 2}}),
    ("certificates.k8s.io/v1", "CertificateSigningRequest", {"spec": _REQUEST}, {}),
    (_NET, "IngressClass", {"spec": {"controller": "example.com/one"}}, {}),
    (_NET, "Ingress", {"spec": _INGRESS}, {"spec": {"ingressClassName": "sample"}}),
    (_NET, "IPAddress", {"spec": {"parentRef": {"resource": "services", "name": "web",
                                                "namespace": "default"}}}, {}),
    (_NET, "NetworkPolicy", {"spec": {"podSelector": _SELECTOR, "policyTypes": ["Ingress"]}},
     {"spec": {"policyTypes": ["Ingress", "Egress"]}}),
    (_NET, "ServiceCIDR", {"spec": {"cidrs": ["10.9.0.0/24"]}}, {}),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "selector": _SELECTOR}},
     {"spec": {"minAvailable": 2}}),
    (f"{_RBAC}/v1", "ClusterRoleBinding", {"roleRef": _VIEW}, _USERS),
    (f"{_RBAC}/v1", "ClusterRole", {}, _READ),
    (f"{_RBAC}/v1", "RoleBinding", {"roleRef": _VIEW}, _USERS),
    (f"{_RBAC}/v1", "Role", {}, _READ),
    ("storage.k8s.io/v1", "CSIDriver", {"spec": {"attachRequired": False}},
     {"spec": {"requiresRepublish": True}}),
    ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": []}},
     {"spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n"}]}}),
    ("storage.k8s.io/v1", "CSIStorageCapacity", {"storageClassName": "sample", "capacity": "1Gi"},
     {"capacity": "2Gi"}),
    ("storage.k8s.io/v1", "StorageClass", {"provisioner": "csi.example.com"},
     {"allowVolumeExpansion": True}),
    ("storage.k8s.io/v1", "VolumeAttachment", {"spec": _ATTACHED}, {}),
    ("storage.k8s.io/v1", "VolumeAttributesClass", {"driverName": "csi.example.com",
                                                    "parameters": {"iops": "1"}}, {}),
    (_ADMISSION, "MutatingAdmissionPolicy", {"spec": {
        "matchConstraints": _MATCH, "reinvocationPolicy": "Never", "failurePolicy": "Ignore",
        "mutations": [{"patchType": "ApplyConfiguration",
                       "applyConfiguration": {"expression": "Object{}"}}]}},
     {"spec": {"failurePolicy": "Fail"}}),
    (_ADMISSION, "MutatingAdmissionPolicyBinding", {"spec": {"policyName": "one"}},
     {"spec": {"policyName": "two"}}),
    (_ADMISSION, "MutatingWebhookConfiguration", {"webhooks": [_WEBHOOK]},
     {"webhooks": [{**_WEBHOOK, "timeoutSeconds": 3}]}),
    (_ADMISSION, "ValidatingAdmissionPolicy", {"spec": {
        "matchConstraints": _MATCH, "failurePolicy": "Ignore",
        "validations": [{"expression": "false"}]}}, {"spec": {"failurePolicy": "Fail"}}),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding", {
        "spec": {"policyName": "one", "validationActions": ["Deny"]}},
     {"spec": {"validationActions": ["Warn"]}}),
    (_ADMISSION, "ValidatingWebhookConfiguration", {"webhooks": [_WEBHOOK]},
     {"webhooks": [{**_WEBHOOK, "timeoutSeconds": 3}]}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 7}, {"description": "for samples"}),
    ("coordination.k8s.io/v1", "Lease", {"spec": {"holderIdentity": "one"}},
     {"spec": {"holderIdentity": "two"}}),
    ("node.k8s.io/v1", "RuntimeClass", {"handler": "runc"}, {}),
    ("discovery.k8s.io/v1", "EndpointSlice", {"addressType": "IPv4", "endpoints": []},
     {"endpoints": [{"addresses": ["10.0.0.9"]}]}),
    ("resource.k8s.io/v1", "DeviceClass", {"spec": {}}, {"spec": {"selectors": [
        {"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}}),
    ("resource.k8s.io/v1", "ResourceClaim", {"spec": _CLAIM}, {}),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", {"spec": {"spec": _CLAIM}}, {}),
    ("resource.k8s.io/v1", "ResourceSlice", {"spec": _SLICE},
     {"spec": {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}}),
    ("core.k8s.io/v1alpha1", "ResourceClass", {"driverName": "gpu.example.com"},
     {"driverName": "other.example.com"}),
    ("core.k8s.io/v1alpha1", "ResourceClaim", {"spec": {"resourceClassName": "gpu"}}, {}),
    ("core.k8s.io/v1alpha1", "PodScheduling",
     {"metadata": {"name": "sample", "ownerReferences": [_POD_OWNER]},
      "spec": {"selectedNode": "n1"}}, {"spec": {"selectedNode": "n2"}}),
    ("dra.holdfast.dev/v1alpha1", "NodeInventory",
     {"spec": {"driverName": "gpu.example.com", "nodeName": "n1", "ready": True,
               "devices": [{"name": "gpu-0", "capacity": {"memory": {"value": "8Gi"}}}]}},
     {"spec": {"ready": False}}),
    ("scheduling.koordinator.sh/v1alpha1", "Reservation", {"spec": _OWNER},
     {"spec": {"ttl": "2h"}}),
    ("scheduling.koordinator.sh/v1alpha1", "Device", {"spec": {"devices": [
        {"type": "gpu", "minor": 0, "id": "GPU-0", "health": True, "resources": {
            "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi"}}]}},
     {"spec": {"devices": []}}),
    ("scheduling.koordinator.sh/v1alpha1", "PodMigrationJob", {"spec": {
        "podRef": {"namespace": "default", "name": "sample"}, "paused": True}},
     {"spec": {"ttl": "5m"}}),
    ("topology.node.k8s.io/v1alpha1", "NodeResourceTopology", {
        "topologyPolicies": ["None"], "zones": [{"name": "node-0", "type": "Node"}]},
     {"topologyPolicies": ["BestEffort"]}),
    ("scheduling.sigs.x-k8s.io/v1alpha1", "ResourcePolicy", {"spec": {
        "podSelector": _SELECTOR, "units": [{"nodeSelector": {"matchLabels": {"pool": "a"}}}]}},
     {"spec": {"units": [{"nodeSelector": {"matchLabels": {"pool": "b"}}}]}}),
    ("example.com/v1", "Widget", {"spec": {"size": 1}}, {"spec": {"size": 2}}),
)  # fmt: skip

NAMES = {"IPAddress": "10.0.0.9", "APIService": "v1.metrics.example.com"}
WIDGETS = definition()
"""The CRD of Widget, which is also the sample of the kind CustomResourceDefinition."""


def objects() -> list[dict[str, Any]]:
    """Return an object of every kind but CustomResourceDefinition."""
    return [_named(*row[:3]) for row in _ROWS]


def changes() -> list[dict[str, Any]]:
    """Return the merge patches in the order of ``objects``."""
    return [row[3] for row in _ROWS]


def _named(api_version: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    name = NAMES.get(kind, f"sample-{api_version[0]}" if kind == "Event" else "sample")
    head = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
    if kind == "Event" and "involvedObject" not in body:
        head["regarding"] = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {**head, **body}
