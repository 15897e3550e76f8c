"""The descriptors of the built-in kinds, one file per API group.

``reviews`` has two groups; ``namespaces`` and ``events`` each have one kind of the core group.
Lives here: the descriptors and the functions they use (``admission``, ``validation``, ``printers``,
``subresources``), and the descriptors of custom resources (``custom_resources``). May not live
here: code that all kinds share, which is in ``verbs``. CONTRIBUTING lists what a new built-in kind
needs besides its descriptor.
"""

from holdfast.server.descriptor import KindDescriptor
from holdfast.server.kinds import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apps,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    events,
    networking,
    node,
    policy,
    rbac,
    resource,
    reviews,
    scheduling,
    storage,
)
from holdfast.server.kinds import classic_dra as core_k8s_io

BUILT_IN: tuple[KindDescriptor, ...] = (
    *core.KINDS,
    *apiregistration.KINDS,
    *apps.KINDS,
    *events.KINDS,
    *reviews.KINDS,
    *autoscaling.KINDS,
    *batch.KINDS,
    *certificates.KINDS,
    *networking.KINDS,
    *policy.KINDS,
    *rbac.KINDS,
    *storage.KINDS,
    *admissionregistration.KINDS,
    *apiextensions.KINDS,
    *scheduling.KINDS,
    *coordination.KINDS,
    *node.KINDS,
    *networking.DISCOVERY_KINDS,
    *resource.KINDS,
    *core_k8s_io.KINDS,
)
"""All built-in kinds, in the order of discovery: kubectl takes the first kind with a given name.

Left out on purpose: beta versions except those of ``resource.k8s.io``, ``componentstatuses``, which
are not stored, and API priority and fairness, which nothing would enforce.
"""
BUILT_IN_CRDS = core_k8s_io.DEFINITIONS
"""The schemas of built-in kinds that are made from CRDs, for OpenAPI documents."""
NOT_STORED_CRDS = core_k8s_io.CRD_NAMES
"""CRDs of deploy/crds that the server does not store, as it serves their kinds in other groups."""
