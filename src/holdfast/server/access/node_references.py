"""The objects that a pod or a persistent volume refers to, which its node may therefore read."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import list_at, map_at, maps_at, text_at
from holdfast.server.added_groups import ADDED_GROUPS

Reference = tuple[str, str, str]
"""The plural, namespace and name of an object; added groups have plurals with the group."""
SECRETS, CONFIG_MAPS, ACCOUNTS = "secrets", "configmaps", "serviceaccounts"
VOLUME_CLAIMS, CLAIMS = "persistentvolumeclaims", "resourceclaims"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
# Volume sources with a reference to a secret, and the field that has it.
_SECRET_SOURCES = {
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "flexVolume": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "iscsi": "secretRef",
    "storageos": "secretRef",
    "csi": "nodePublishSecretRef",
}
# The namespace of these secrets is that of the claim unless the volume names one.
_VOLUME_SECRET_SOURCES = ("cephfs", "flexVolume", "rbd", "scaleIO", "iscsi")
_VOLUME_SECRET_SOURCES_WITH_NAMESPACE = ("cinder", "storageos")
# The secrets of a CSI volume that a kubelet needs; the others are for controllers.
_CSI_SECRETS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")
# Volumes that need no object of the API.
_LOCAL_VOLUMES = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    }
)
_API_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_API_PROJECTIONS = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def is_mirror(pod: JsonMapping) -> bool:
    """Return whether this is a mirror pod: it shows a pod that its node runs from a local file."""
    return MIRROR_ANNOTATION in map_at(map_at(pod, "metadata"), "annotations")


def pod_references(pod: JsonMapping) -> frozenset[Reference]:
    """Return the objects that a pod refers to; none for a mirror pod, which its node has created.

    >>> spec = {"volumes": [{"secret": {"secretName": "s"}}]}
    >>> pod_references({"metadata": {"namespace": "a"}, "spec": spec})
    frozenset({('secrets', 'a', 's')})
    """
    if is_mirror(pod):
        return frozenset()
    namespace = text_at(map_at(pod, "metadata"), "namespace")
    pairs = [*_in_spec(pod), *((CLAIMS, name) for name in _claims(pod))]
    pairs += [each for added in ADDED_GROUPS for each in added.nodes.references(pod)]
    return frozenset((plural, namespace, name) for plural, name in pairs if name)


def _in_spec(pod: JsonMapping) -> Iterator[tuple[str, str]]:
    spec = map_at(pod, "spec")
    yield ACCOUNTS, text_at(spec, "serviceAccountName")
    yield from _secrets_and_config_maps(spec)
    name = text_at(map_at(pod, "metadata"), "name")
    for volume in maps_at(spec, "volumes"):
        if "persistentVolumeClaim" in volume:
            yield VOLUME_CLAIMS, text_at(map_at(volume, "persistentVolumeClaim"), "claimName")
        elif volume.get("ephemeral") is not None:
            yield VOLUME_CLAIMS, f"{name}-{text_at(volume, 'name')}"


def _secrets_and_config_maps(spec: JsonMapping) -> Iterator[tuple[str, str]]:
    for reference in maps_at(spec, "imagePullSecrets"):
        yield SECRETS, text_at(reference, "name")
    for group in _CONTAINERS:
        for container in maps_at(spec, group):
            yield from _in_container(container)
    for volume in maps_at(spec, "volumes"):
        yield from _in_volume(volume)


def _in_container(container: JsonMapping) -> Iterator[tuple[str, str]]:
    for source in maps_at(container, "envFrom"):
        yield SECRETS, text_at(map_at(source, "secretRef"), "name")
        yield CONFIG_MAPS, text_at(map_at(source, "configMapRef"), "name")
    for variable in maps_at(container, "env"):
        source = map_at(variable, "valueFrom")
        yield SECRETS, text_at(map_at(source, "secretKeyRef"), "name")
        yield CONFIG_MAPS, text_at(map_at(source, "configMapKeyRef"), "name")


def _in_volume(volume: JsonMapping) -> Iterator[tuple[str, str]]:
    yield SECRETS, text_at(map_at(volume, "secret"), "secretName")
    yield SECRETS, text_at(map_at(volume, "azureFile"), "secretName")
    yield CONFIG_MAPS, text_at(map_at(volume, "configMap"), "name")
    for source, field in _SECRET_SOURCES.items():
        yield SECRETS, text_at(map_at(map_at(volume, source), field), "name")
    for projection in maps_at(map_at(volume, "projected"), "sources"):
        yield SECRETS, text_at(map_at(projection, "secret"), "name")
        yield CONFIG_MAPS, text_at(map_at(projection, "configMap"), "name")


def _claims(pod: JsonMapping) -> Iterator[str]:
    """Yield the names of the pod's resource claims, including the one for extended resources."""
    status = map_at(pod, "status")
    created = {
        text_at(entry, "name"): text_at(entry, "resourceClaimName")
        for entry in maps_at(status, "resourceClaimStatuses")
    }
    for entry in maps_at(map_at(pod, "spec"), "resourceClaims"):
        if "claim" in entry:
            continue
        named = text_at(entry, "resourceClaimName")
        yield named or created.get(text_at(entry, "name"), "")
    yield text_at(map_at(status, "extendedResourceClaimStatus"), "resourceClaimName")


def volume_secrets(volume: JsonMapping) -> frozenset[tuple[str, str]]:
    """Return namespace and name of the secrets that a kubelet needs to mount a PersistentVolume."""
    spec = map_at(volume, "spec")
    default = text_at(map_at(spec, "claimRef"), "namespace")
    file = map_at(spec, "azureFile")
    secrets = [(text_at(file, "secretNamespace") or default, text_at(file, "secretName"))]
    for source in _VOLUME_SECRET_SOURCES:
        secret = map_at(map_at(spec, source), "secretRef")
        secrets.append((text_at(secret, "namespace") or default, text_at(secret, "name")))
    others = [
        map_at(map_at(spec, source), "secretRef")
        for source in _VOLUME_SECRET_SOURCES_WITH_NAMESPACE
    ]
    others += [map_at(map_at(spec, "csi"), field) for field in _CSI_SECRETS]
    secrets += [(text_at(secret, "namespace"), text_at(secret, "name")) for secret in others]
    return frozenset((namespace, name) for namespace, name in secrets if name)


def api_objects_needed(pod: JsonMapping) -> str:
    """Return which objects of the API a pod needs, in upstream's words; "" if it needs none."""
    spec = map_at(pod, "spec")
    if text_at(spec, "serviceAccountName"):
        return ACCOUNTS
    named = {plural for plural, name in _secrets_and_config_maps(spec) if name}
    for plural in (SECRETS, CONFIG_MAPS):
        if plural in named:
            return plural
    if list_at(spec, "resourceClaims"):
        return CLAIMS
    for volume in maps_at(spec, "volumes"):
        if needed := _volume_needs(volume):
            return needed
    return ""


def _volume_needs(volume: JsonMapping) -> str:
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    for source in sources:
        if source in _API_VOLUMES:
            return _API_VOLUMES[source]
    for projection in maps_at(map_at(volume, "projected"), "sources"):
        for source in projection:
            if source in _API_PROJECTIONS:
                return _API_PROJECTIONS[source]
            if source != "downwardAPI":
                return "volumes of an unknown type"
    unknown = [s for s in sources if s not in _LOCAL_VOLUMES and s != "projected"]
    return "volumes of an unknown type" if unknown else ""
