"""DeviceShare: pods get GPUs, RDMA cards and FPGAs of a node, whole or by percent.

Lives here: the plugin, its arguments, its plans, searches by state of a node, and queueing hints.
May not live here: requests and the choice of devices (``device_share``), other plugins.
"""

from holdfast.scheduling.plugins.device_share.plugin import DeviceShare

__all__ = ["DeviceShare"]
