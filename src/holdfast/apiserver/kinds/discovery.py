"""The kind of ``discovery.k8s.io``: where the pods of a Service are reached."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Served
from holdfast.apiserver.kinds.printers import network
from holdfast.apiserver.kinds.rows import row
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

KINDS = (
    Served(
        row("discovery.k8s.io", "endpointslices", "EndpointSlice"),
        lists=tree_of(list_limits.ENDPOINT_SLICE),
        printer=network.ENDPOINT_SLICE,
        counts_generations=True,
    ),
)
