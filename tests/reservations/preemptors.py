"""Pods that preempt, pods that stop slowly, and the setting that reserves for the former."""

from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.plugins import REGISTRY

ARGS = {"Reservation": {"enableReservationForPreemptor": True}}
HIGH = {"priority_class_name": "high"}
HIGHER = {"priority_class_name": "higher", "preemption_policy": "Never"}
SLOW = {"annotations": {"holdfast.dev/stop-after": "30s"}}


def configured(enabled=True):
    profile = build_profile("default-scheduler", REGISTRY, args=ARGS if enabled else {})
    return Configuration({"default-scheduler": profile})
