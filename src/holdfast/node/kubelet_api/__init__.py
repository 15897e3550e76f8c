"""The gRPC messages between a kubelet and the plugins of its node, on Unix sockets.

Lives here: the ``.proto`` files, with upstream's packages, services and field numbers, the modules
``*_pb2`` and ``*_pb2_grpc`` that ``tools/generate_kubelet_api.py`` generates, and the names that
both sides use. May not live here: code that calls, serves or decides (agent, driverkit).

- ``plugin_registration``: ``pluginregistration.Registration``, in ``plugins_registry/``;
- ``dra_v1``, ``dra_v1beta1``: ``DRAPlugin``, the drivers of structured DRA;
- ``dra_classic``: ``v1alpha1.Node``, the drivers of classic DRA;
- ``device_plugin``: ``v1beta1.Registration`` and ``v1beta1.DevicePlugin``.

Importing one of them imports grpc (a tenth of a second): do so where calls are made or served.
This module imports nothing.
"""

from __future__ import annotations

DRA_PLUGIN = "DRAPlugin"
"""Type of a plugin that is a driver of structured DRA."""
CLASSIC_PLUGIN = "ResourcePlugin"
"""Type of a plugin that is a driver of classic DRA."""
DEVICE_PLUGIN = "DevicePlugin"
"""Type of a device plugin that registers in ``plugins_registry/``."""

DRA_V1 = "v1.DRAPlugin"
DRA_V1BETA1 = "v1beta1.DRAPlugin"
DEVICE_PLUGIN_VERSION = "v1beta1"

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
"""Health of a device of a device plugin; everything but ``Healthy`` is unhealthy."""

LONGEST_SOCKET_PATH = 107
"""The most bytes of the path of a Unix socket on Linux."""
REGISTRY_DIRECTORY = "plugins_registry"
"""Directory of a node in which plugins put the socket that serves Registration."""
PLUGINS_DIRECTORY = "plugins"
DEVICE_PLUGINS_DIRECTORY = "device-plugins"
KUBELET_SOCKET = "kubelet.sock"
"""Socket in the directory of device plugins on which the node serves Registration."""
