"""What the server knows of single kinds: a descriptor each, in one file an API group.

Lives here: the entries of the built-in kinds and the functions they name (``admission``,
``validation``, ``printers``, ``subresources``; ``namespaces`` and ``reviews`` are such functions
too), and how custom resources come to be served (``custom`` describes them, ``definitions`` keeps
the registry as the stored definitions say). May not live here: what all kinds share, which is in
``verbs``. A new built-in kind is an entry here and a test.
"""

from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.kinds import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apps,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    discovery,
    events,
    networking,
    node,
    policy,
    rbac,
    resource,
    scheduling,
    storage,
)

BUILT_IN: tuple[KindDescriptor, ...] = (
    *core.KINDS,
    *apiregistration.KINDS,
    *apps.KINDS,
    *events.KINDS,
    *authentication.KINDS,
    *authorization.KINDS,
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
    *discovery.KINDS,
    *resource.KINDS,
)
"""Every built-in kind, in the order of discovery.

Left out on purpose: beta versions whose objects have another shape than v1,
``componentstatuses``, which no storage stands behind, and API priority and fairness, which would
promise a fairness that nothing enforces.
"""
