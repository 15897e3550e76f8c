"""The kind ResourcePolicy of ``scheduling.sigs.x-k8s.io``: limits of its lists."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.validation.list_limits import RESOURCE_POLICY_TREE

KINDS = (KindDescriptor(scheme.RESOURCE_POLICIES, list_limits=RESOURCE_POLICY_TREE),)
