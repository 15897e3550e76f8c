"""Fields of pods and their templates that are stored but have no effect."""

from __future__ import annotations

from holdfast.api import group_scheduling
from holdfast.api.group_scheduling import not_read
from holdfast.server.unimplemented_features import UnimplementedField

_PROBES = (
    "Probes are run for processes only: simulated containers are reported as started and ready"
)
_HOOKS = "Lifecycle hooks are run for processes only: simulated containers start and stop at once"
_IN_TEMPLATES_TOO = (
    *(
        UnimplementedField(("spec", containers, "[]", part), sentence)
        for containers in ("containers", "initContainers")
        for part, sentence in (
            ("livenessProbe", _PROBES), ("readinessProbe", _PROBES), ("startupProbe", _PROBES),
            ("lifecycle", _HOOKS),
        )
    ),
    UnimplementedField(("spec", "readinessGates"),
          "Readiness gates count only on nodes with an agent of their own"),
    UnimplementedField(("spec", "runtimeClassName"),
          "runtimeClassName is not read: the pod gets neither the overhead nor the scheduling "
          "constraints of its RuntimeClass"),
    UnimplementedField(("spec", "schedulingGroup"),
          not_read("schedulingGroup", group_scheduling.NO_GANGS)),
    *(
        UnimplementedField(("metadata", part, key), not_read(key, sentence))
        for key, sentence in group_scheduling.KEYS.items()
        for part in ("annotations", "labels")
    ),
    UnimplementedField(("spec", "volumes", "[]", "ephemeral"),
          "No PersistentVolumeClaim is made for an ephemeral volume: the pod waits for one"),
)  # fmt: skip
POD_FIELDS = (
    *_IN_TEMPLATES_TOO,
    UnimplementedField(
        ("spec", "activeDeadlineSeconds"),
        "activeDeadlineSeconds is enforced only on nodes with an agent of their own",
    ),
)
TEMPLATE_FIELDS = tuple(field.prefixed("spec", "template") for field in _IN_TEMPLATES_TOO)
