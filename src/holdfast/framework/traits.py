"""What every plugin has: a name, and a frozen ``Traits`` value that it declares for all pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Protocol, TypeGuard, TypeVar

from holdfast.framework.events import ClusterEvent


class Scope(Enum):
    """What a plugin's answer for a row depends on, and so what may be remembered."""

    NODE = "node"
    """The node itself (labels, taints, flags): pods that come and go change nothing."""
    ROW = "row"
    """That row alone: kept per ``reads(pod)``, patched for changed rows only."""
    DOMAIN = "domain"
    """Counters over topology domains, which the plugin keeps incrementally: the state is kept
    per ``reads(pod)``, filter and score are asked every time."""
    CLUSTER = "cluster"
    """Anything: asked every time, from ``prepare`` on."""

    @property
    def kept(self) -> bool:
        """Whether verdicts and raw scores are remembered between pods."""
        return self in (Scope.NODE, Scope.ROW)


@dataclass(frozen=True, slots=True)
class Traits:
    """How long a plugin's answers hold and how it may be asked; ``check_plugin`` proves it.

    ``Traits()`` is right for every plugin and costs the most. With another scope, ``epochs`` and
    ``beyond_spec`` must tell what answers rest on; all other values are promises.
    """

    scope: Scope = Scope.CLUSTER
    """What an answer for a row depends on. Default: anything, so nothing is remembered."""
    epochs: tuple[str, ...] = ()
    """What else remembered answers depend on, besides rows and ``layout``. Default: nothing."""
    hears: Mapping[str, tuple[str, ...]] | None = None
    """Events ``hint`` may say yes to: actions by resource, () for all. Default: every event."""
    beyond_spec: bool = False
    """``reads`` looks at more of a pod than its spec, namespace, visible labels. Default: no."""
    ignores_amounts: bool = False
    """``reads`` does not look at what a pod requests. Default: it does."""
    comparable: bool = False
    """An equal state after an epoch moved means equal answers. Default: all is asked again."""
    sliced: bool = False
    """Also takes a slice of rows, some of them no nodes; never answers ERROR. Default: arrays."""
    bounded: bool = False
    """Normalized scores are in 0..100 by construction. Default: they are checked every time."""
    serves_owners: bool = False
    """Where room is held for a pod, ``filter`` answers for amounts in the place of others; without
    such a plugin held room is simply taken. Default: no."""
    asked_unprepared: bool = False
    """``after_reject`` is asked even if ``prepare`` was not. Default: that is an error."""

    def hear(self, event: ClusterEvent) -> bool:
        """Tell whether ``hears`` names such an event.

        ``Pod`` means pods on nodes and pods without, ``Update`` every kind of update.
        """
        listens = self.hears
        return (
            listens is None
            or _named(listens.get(event.resource), event.action)
            or (event.about_pod and _named(listens.get("Pod"), event.action))
        )


def _named(actions: tuple[str, ...] | None, action: str) -> bool:
    if actions is None:
        return False
    every = not actions or ("Update" in actions and action.startswith("Update"))
    return every or action in actions


class Plugin(Protocol):
    """What every plugin has; the rest of the contract are protocols it may implement besides.

    They stand in ``plugin`` (for every author), ``fast_paths`` (for authors who need speed) and
    ``making_room`` (for authors whose filter looks at the pods of a node).
    """

    @property
    def name(self) -> str:
        """The name messages, metrics and weights go by."""
        ...

    @property
    def traits(self) -> Traits:
        """How long its answers hold and how it may be asked."""
        ...


P = TypeVar("P", bound=Plugin)
_IMPLEMENTED: dict[tuple[type, type], bool] = {}


def implements(plugin: Plugin, point: type[P]) -> TypeGuard[P]:
    """Tell whether a plugin has all methods of an extension point; looked up once per class."""
    key = (type(plugin), point)
    found = _IMPLEMENTED.get(key)
    if found is None:
        found = _IMPLEMENTED[key] = all(
            callable(getattr(plugin, method, None)) for method in methods_of(point)
        )
    return found


def methods_of(point: type[Plugin]) -> list[str]:
    """The methods that an extension point asks for."""
    return sorted(method for method in vars(point) if not method.startswith("_"))


NAMES = tuple(field.name for field in fields(Traits))


def declaration_fault(plugin: object) -> str:
    """Say what is wrong with how a plugin declares its traits, "" for nothing.

    A trait that is set as an attribute of the plugin itself has no effect.
    """
    kind = type(plugin).__name__
    told = "(from holdfast.framework.plugin import Traits)"
    stray = [name for name in NAMES if hasattr(plugin, name)]
    if stray:
        fixed = ", ".join(f"{name}=..." for name in stray)
        return (
            f"class {kind} sets {', '.join(stray)}, which is not read: write "
            f"`traits = Traits({fixed})` instead {told}"
        )
    if not isinstance(getattr(plugin, "traits", None), Traits):
        return f"class {kind} has no traits: write `traits = Traits()` in it {told}"
    return ""
