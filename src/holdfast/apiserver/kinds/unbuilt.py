"""What is stored but not acted on: kinds and fields, each with the sentence that users are told.

Writing such an object is answered with the sentence as a warning. docs/status.md lists the same
sentences, and a test compares the two. Remove a row here, and there, when the thing is built; the
test also names what acts on each of the other built-in kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.apiserver.kinds.policies import Id

_ADMISSION = "admissionregistration.k8s.io"
_NETWORK = "networking.k8s.io"
_STORAGE = "storage.k8s.io"
_DEVICES = "resource.k8s.io"

KINDS: Mapping[Id, str] = {
    ("", "limitranges"):
        "LimitRanges are stored but not enforced: no default is filled in and no limit is checked",
    ("", "persistentvolumeclaims"):
        "PersistentVolumeClaims do not become Bound: Holdfast has no volume controller",
    ("", "persistentvolumes"):
        "PersistentVolumes are read by the scheduler, but Holdfast does not bind or reclaim them",
    ("", "replicationcontrollers"):
        "ReplicationControllers are stored but make no pods: use a Deployment",
    ("", "resourcequotas"):
        "ResourceQuotas are stored but not enforced: nothing is counted and nothing is refused",
    ("", "serviceaccounts"):
        "ServiceAccounts are stored but get no token: no client can authenticate as one",
    ("", "services"):
        "Services are stored but get no address and no endpoints: simulated pods have no network",
    ("apiregistration.k8s.io", "apiservices"):
        "APIServices are stored, but no request is forwarded to another API server",
    ("apps", "daemonsets"):
        "DaemonSets are stored but make no pods: Holdfast has no DaemonSet controller",
    ("apps", "statefulsets"):
        "StatefulSets are stored but make no pods: Holdfast has no StatefulSet controller",
    ("autoscaling", "horizontalpodautoscalers"):
        "HorizontalPodAutoscalers are stored but scale nothing: Holdfast has no autoscaler and no "
        "metrics of pods",
    ("batch", "cronjobs"):
        "CronJobs are stored but start no Jobs: Holdfast has no CronJob controller",
    ("batch", "jobs"):
        "Jobs are stored but not run: Holdfast has no Job controller",
    ("certificates.k8s.io", "certificatesigningrequests"):
        "CertificateSigningRequests are stored but cannot be approved, and none is signed",
    (_NETWORK, "ingressclasses"):
        "IngressClasses are stored but not read: Holdfast has no Ingress controller",
    (_NETWORK, "ingresses"):
        "Ingresses are stored but route nothing: Holdfast has no Ingress controller",
    (_NETWORK, "ipaddresses"):
        "IPAddresses are stored but not read: no addresses of Services are allocated",
    (_NETWORK, "networkpolicies"):
        "NetworkPolicies are stored but not enforced: simulated pods have no network",
    (_NETWORK, "servicecidrs"):
        "ServiceCIDRs are stored but not read: no addresses of Services are allocated",
    (_STORAGE, "storageclasses"):
        "StorageClasses are read by the scheduler, but Holdfast does not provision volumes",
    (_STORAGE, "volumeattachments"):
        "VolumeAttachments are counted by the scheduler, but no volume is attached",
    (_STORAGE, "volumeattributesclasses"):
        "VolumeAttributesClasses are stored but not read: no volume is modified",
    (_ADMISSION, "mutatingadmissionpolicies"):
        "MutatingAdmissionPolicies are stored but not evaluated: no object is changed by one",
    (_ADMISSION, "mutatingadmissionpolicybindings"):
        "MutatingAdmissionPolicyBindings are stored, but no admission policy is evaluated",
    (_ADMISSION, "mutatingwebhookconfigurations"):
        "MutatingWebhookConfigurations are stored, but no admission webhook is called",
    (_ADMISSION, "validatingadmissionpolicies"):
        "ValidatingAdmissionPolicies are stored but not evaluated: what they deny is accepted",
    (_ADMISSION, "validatingadmissionpolicybindings"):
        "ValidatingAdmissionPolicyBindings are stored, but no admission policy is evaluated",
    (_ADMISSION, "validatingwebhookconfigurations"):
        "ValidatingWebhookConfigurations are stored, but no admission webhook is called",
    ("node.k8s.io", "runtimeclasses"):
        "RuntimeClasses are stored but not read: pods get neither their overhead nor their "
        "scheduling constraints",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """A field that is stored but not acted on, if it is set (``only``: to one of these values)."""

    path: tuple[str, ...]
    """Keys from the object down; ``[]`` stands for every item of a list."""
    sentence: str
    only: tuple[str, ...] = ()

    def below(self, *prefix: str) -> Field:
        """Give the same field of an object that holds such an object."""
        return Field((*prefix, *self.path), self.sentence, self.only)


_PROBES = "Probes are not run: simulated nodes report every container as started and ready"
_HOOKS = "Lifecycle hooks are not run: simulated containers start and stop at once"
_POD = (
    *(
        Field(("spec", containers, "[]", part), sentence)
        for containers in ("containers", "initContainers")
        for part, sentence in (
            ("livenessProbe", _PROBES), ("readinessProbe", _PROBES), ("startupProbe", _PROBES),
            ("lifecycle", _HOOKS),
        )
    ),
    Field(("spec", "activeDeadlineSeconds"),
          "activeDeadlineSeconds is not enforced: the pod runs until it is deleted"),
    Field(("spec", "readinessGates"),
          "Readiness gates are not waited for: simulated nodes report every pod as ready"),
    Field(("spec", "runtimeClassName"),
          "runtimeClassName is not read: the pod gets neither the overhead nor the scheduling "
          "constraints of its RuntimeClass"),
    Field(("spec", "schedulingGroup"),
          "schedulingGroup is not read: pods are scheduled one by one, not in gangs"),
    Field(("spec", "volumes", "[]", "ephemeral"),
          "No PersistentVolumeClaim is made for an ephemeral volume: the pod waits for one"),
    Field(("metadata", "labels", "scheduling.koordinator.sh/operating-mode"),
          "A pod with operating mode Reservation is an ordinary pod: create a Reservation instead",
          ("Reservation",)),
)  # fmt: skip
_TEMPLATE = tuple(field.below("spec", "template") for field in _POD)

FIELDS: Mapping[Id, tuple[Field, ...]] = {
    ("", "nodes"): (
        Field(("spec", "taints", "[]", "effect"),
              "NoExecute taints keep new pods away, but running pods are not evicted",
              ("NoExecute",)),
    ),
    ("", "pods"): _POD,
    ("", "secrets"): (
        Field(("type",), "No token is written into Secrets of service accounts",
              ("kubernetes.io/service-account-token",)),
    ),
    ("apps", "deployments"): _TEMPLATE,
    ("apps", "replicasets"): _TEMPLATE,
    ("apiextensions.k8s.io", "customresourcedefinitions"): (
        Field(("spec", "conversion", "strategy"),
              "Conversion webhooks are not called: every version shows the fields as they were "
              "stored", ("Webhook",)),
    ),
    (_DEVICES, "resourceslices"): (
        Field(("spec", "devices", "[]", "bindingConditions"),
              "Devices with binding conditions are not allocated"),
    ),
    ("scheduling.sigs.x-k8s.io", "resourcepolicies"): (
        Field(("spec", "matchPolicy", "ignorePreviousPod"),
              "ignorePreviousPod is not read: pods bound before the policy are counted"),
        Field(("spec", "preemptPolicy"),
              "preemptPolicy is not read: preemption is tried after all units",
              ("BeforeNextUnit",)),
        Field(("spec", "whenTryNextUnits", "policy"),
              "whenTryNextUnits is not read: the next unit is tried when a unit has no room",
              ("ExceedMax", "TimeoutOrExceedMax", "LackResourceAndNoTerminating")),
        Field(("spec", "units", "[]", "maxResources"),
              "maxResources is not read: only maxCount limits a unit"),
        Field(("spec", "units", "[]", "podAnnotations"),
              "podAnnotations are not written on pods"),
        Field(("spec", "units", "[]", "podLabels"), "podLabels are not written on pods"),
    ),
}  # fmt: skip
