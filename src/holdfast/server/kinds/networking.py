"""The kinds of ``networking.k8s.io`` and ``discovery.k8s.io``.

They have no effect, as simulated pods have no network.
"""

from __future__ import annotations

from holdfast.api.validation import list_limits
from holdfast.api.validation.counting import tree_of
from holdfast.server.descriptor import KindDescriptor, untyped_resource
from holdfast.server.kinds.printers import network
from holdfast.server.unimplemented_features import UnimplementedFeatures

_GROUP = "networking.k8s.io"

KINDS = (
    KindDescriptor(
        untyped_resource(_GROUP, "ingressclasses", "IngressClass", namespaced=False),
        printer=network.INGRESS_CLASS,
        has_generation=True,
        unimplemented=UnimplementedFeatures(
            "IngressClasses are stored but not read: Holdfast has no Ingress controller"
        ),
    ),
    KindDescriptor(
        untyped_resource(_GROUP, "ingresses", "Ingress", short=("ing",), parts=("status",)),
        printer=network.INGRESS,
        has_generation=True,
        unimplemented=UnimplementedFeatures(
            "Ingresses are stored but route nothing: Holdfast has no Ingress controller"
        ),
    ),
    KindDescriptor(
        untyped_resource(_GROUP, "ipaddresses", "IPAddress", namespaced=False, short=("ip",)),
        printer=network.IP_ADDRESS,
        unimplemented=UnimplementedFeatures(
            "IPAddresses are stored but not read: no addresses of Services are allocated"
        ),
    ),
    KindDescriptor(
        untyped_resource(_GROUP, "networkpolicies", "NetworkPolicy", short=("netpol",)),
        printer=network.NETWORK_POLICY,
        has_generation=True,
        unimplemented=UnimplementedFeatures(
            "NetworkPolicies are stored but not enforced: simulated pods have no network"
        ),
    ),
    KindDescriptor(
        untyped_resource(
            _GROUP, "servicecidrs", "ServiceCIDR", namespaced=False, parts=("status",)
        ),
        printer=network.SERVICE_CIDR,
        unimplemented=UnimplementedFeatures(
            "ServiceCIDRs are stored but not read: no addresses of Services are allocated"
        ),
    ),
)

DISCOVERY_KINDS = (
    KindDescriptor(
        untyped_resource("discovery.k8s.io", "endpointslices", "EndpointSlice"),
        list_limits=tree_of(list_limits.ENDPOINT_SLICE),
        printer=network.ENDPOINT_SLICE,
        has_generation=True,
    ),
)
