"""The public test kit: for tests of Holdfast, of plugins and of device drivers.

Lives here: builders of objects, the virtual clock, fault injection, the harness that runs a whole
cluster in one process, and the conformance suites. May not live here: anything that Holdfast needs
to run, because no other package imports this one. Only time and faults are simulated; everything
else is the real code. ``__all__`` is the stable part (docs/public-api.md).
"""

from typing import TYPE_CHECKING

from holdfast.runtime.deferred_imports import deferred
from holdfast.testing.builders import (
    a_deployment,
    a_namespace,
    a_node,
    a_pod,
    a_priority_class,
    a_replica_set,
    a_reservation,
    a_resource_policy,
    a_unit,
    typed,
)
from holdfast.testing.clock import VirtualClock
from holdfast.testing.conformance import check_plugin
from holdfast.testing.device_builders import (
    a_claim,
    a_claim_template,
    a_device,
    a_device_class,
    a_slice,
    a_taint_rule,
)
from holdfast.testing.fake_cluster import FakeCluster
from holdfast.testing.faults import Chances, Fault, FaultyTransport
from holdfast.testing.storage_builders import (
    a_csi_node,
    a_storage_class,
    a_volume,
    a_volume_claim,
    mounting,
)

if TYPE_CHECKING:
    from holdfast.testing.driver_cluster import DriverCluster
    from holdfast.testing.driver_conformance import check_driver, check_driver_async
    from holdfast.testing.drivers import DriverNode, FaultyDriver
    from holdfast.testing.harness import Harness

__all__ = [
    "Chances",
    "DriverCluster",
    "DriverNode",
    "FakeCluster",
    "Fault",
    "FaultyDriver",
    "FaultyTransport",
    "Harness",
    "VirtualClock",
    "a_claim",
    "a_claim_template",
    "a_csi_node",
    "a_deployment",
    "a_device",
    "a_device_class",
    "a_namespace",
    "a_node",
    "a_pod",
    "a_priority_class",
    "a_replica_set",
    "a_reservation",
    "a_resource_policy",
    "a_slice",
    "a_storage_class",
    "a_taint_rule",
    "a_unit",
    "a_volume",
    "a_volume_claim",
    "check_driver",
    "check_driver_async",
    "check_plugin",
    "mounting",
    "typed",
]

__getattr__ = deferred(
    __name__,
    {
        "DriverCluster": "driver_cluster",
        "DriverNode": "drivers",
        "FaultyDriver": "drivers",
        "Harness": "harness",
        "check_driver": "driver_conformance",
        "check_driver_async": "driver_conformance",
    },
)
