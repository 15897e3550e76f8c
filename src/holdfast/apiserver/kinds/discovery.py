"""The kind of ``discovery.k8s.io``: EndpointSlice."""

from __future__ import annotations

from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.kinds.printers import network
from holdfast.apiserver.kinds.untyped_resources import untyped_resource
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

KINDS = (
    KindDescriptor(
        untyped_resource("discovery.k8s.io", "endpointslices", "EndpointSlice"),
        list_limits=tree_of(list_limits.ENDPOINT_SLICE),
        printer=network.ENDPOINT_SLICE,
        has_generation=True,
    ),
)
