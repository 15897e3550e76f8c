"""The arguments of the plugin; ``deallocateUnused`` is read by the claim controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.framework.arguments import Arguments, PluginArgs


class ClassicDynamicResourcesArgs(PluginArgs, frozen=True):
    """The arguments of the plugin.

    ``deallocate_unused``: a claim that waits for its first consumer is deallocated after its last
    one, as in Kubernetes 1.28 to 1.31; else it stays allocated, as the KEP says.
    """

    deallocate_unused: bool = False


def read_args(given: Mapping[str, Any]) -> ClassicDynamicResourcesArgs:
    """Read the arguments; BadConfiguration lists every wrong field."""
    wrong = Arguments("ClassicDynamicResources")
    args = wrong.read(ClassicDynamicResourcesArgs, given)
    wrong.refuse_if_wrong()
    return args
