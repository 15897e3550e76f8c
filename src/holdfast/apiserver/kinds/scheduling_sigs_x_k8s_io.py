"""The kind ResourcePolicy of ``scheduling.sigs.x-k8s.io``: limits of its lists."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

KINDS = (
    KindDescriptor(scheme.RESOURCE_POLICIES, list_limits=tree_of(list_limits.RESOURCE_POLICY)),
)
