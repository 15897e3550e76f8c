"""Which events may make a pod schedulable that was rejected because of devices."""

from __future__ import annotations

from holdfast.api.koordinator_names import DEVICE_ALLOCATED
from holdfast.api.requests import request_nanos
from holdfast.columns.pod_info import PodInfo
from holdfast.device_share.requests import device_resources
from holdfast.errors import HoldfastError
from holdfast.framework.events import ActionType, EventResource
from holdfast.framework.plugin import ClusterEvent
from holdfast.framework.view import View


def helps(event: ClusterEvent, pod: PodInfo, _view: View) -> bool:
    """Return whether an event that the plugin is registered for may help a pod."""
    match event.resource, event.action:
        case EventResource.UNSCHEDULABLE_POD, _:
            return event.is_for_pod(pod)
        case EventResource.ASSIGNED_POD, ActionType.DELETE:
            return event.old is not None and _has_devices(event)
        case EventResource.DEVICE, ActionType.DELETE:
            return False
    return True


def _has_devices(event: ClusterEvent) -> bool:
    """Return whether the deleted pod had devices; one that was being bound only requested them."""
    if DEVICE_ALLOCATED in event.old.metadata.annotations:
        return True
    try:
        return bool(device_resources(request_nanos(event.old)))
    except HoldfastError:
        return True
