"""The kinds of ``networking.k8s.io``: they are data, for simulated pods have no network."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Served
from holdfast.apiserver.kinds.printers import network
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.unbuilt import Unbuilt

_GROUP = "networking.k8s.io"

KINDS = (
    Served(
        row(_GROUP, "ingressclasses", "IngressClass", namespaced=False),
        printer=network.INGRESS_CLASS,
        counts_generations=True,
        unbuilt=Unbuilt(
            "IngressClasses are stored but not read: Holdfast has no Ingress controller"
        ),
    ),
    Served(
        row(_GROUP, "ingresses", "Ingress", short=("ing",), parts=("status",)),
        printer=network.INGRESS,
        counts_generations=True,
        unbuilt=Unbuilt(
            "Ingresses are stored but route nothing: Holdfast has no Ingress controller"
        ),
    ),
    Served(
        row(_GROUP, "ipaddresses", "IPAddress", namespaced=False, short=("ip",)),
        printer=network.IP_ADDRESS,
        unbuilt=Unbuilt(
            "IPAddresses are stored but not read: no addresses of Services are allocated"
        ),
    ),
    Served(
        row(_GROUP, "networkpolicies", "NetworkPolicy", short=("netpol",)),
        printer=network.NETWORK_POLICY,
        counts_generations=True,
        unbuilt=Unbuilt(
            "NetworkPolicies are stored but not enforced: simulated pods have no network"
        ),
    ),
    Served(
        row(_GROUP, "servicecidrs", "ServiceCIDR", namespaced=False, parts=("status",)),
        printer=network.SERVICE_CIDR,
        unbuilt=Unbuilt(
            "ServiceCIDRs are stored but not read: no addresses of Services are allocated"
        ),
    ),
)
