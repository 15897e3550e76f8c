"""The kind of ``scheduling.k8s.io``: classes of priority."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import Admitter, Served
from holdfast.apiserver.kinds.admission.priority_classes import (
    check_only_default,
    check_priority_class,
)
from holdfast.apiserver.kinds.printers import cluster

KINDS = (
    Served(
        scheme.PRIORITY_CLASSES,
        checks=(check_priority_class,),
        admitters=(Admitter(mutate=check_only_default),),  # a second default is refused first
        printer=cluster.PRIORITY_CLASS,
        counts_generations=True,
    ),
)
