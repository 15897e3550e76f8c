"""Merge a profile's sets with the defaults, and expand them into one list a point.

Upstream's rules, on names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.configuration.document import PluginRef, PluginSet


def merged(defaults: Sequence[PluginRef], custom: PluginSet) -> tuple[PluginRef, ...]:
    """Put a user's set on top of the default one.

    A default that the user names keeps its place and takes the user's weight; what is switched off
    goes; the rest of the user's comes last.

    >>> a, b, c = PluginRef("a", 2), PluginRef("b"), PluginRef("c")
    >>> [ref.name for ref in merged([a, b], PluginSet((c, a), (b,)))]
    ['a', 'c']
    """
    off = custom.off
    given = {ref.name: i for i, ref in enumerate(custom.enabled)}
    placed: set[int] = set()
    kept: list[PluginRef] = []
    for ref in () if "*" in off else defaults:
        if ref.name in off:
            continue
        at = given.get(ref.name)
        if at is None:
            kept.append(ref)
        else:
            kept.append(custom.enabled[at])
            placed.add(at)
    return (*kept, *(ref for i, ref in enumerate(custom.enabled) if i not in placed))


def expanded(
    own: PluginSet, multi: Sequence[PluginRef], extends: Callable[[str], bool]
) -> tuple[str, ...]:
    """Name the plugins of a point, in order.

    First those of the point's own set that also come through multiPoint, then the others of
    multiPoint that extend the point and are not off there, then the rest of the point's own.
    """
    listed = [ref.name for ref in own.enabled]
    if "*" in own.off:
        return tuple(dict.fromkeys(listed))
    through = [ref.name for ref in multi if ref.name not in own.off and extends(ref.name)]
    first = [name for name in listed if name in through]
    return tuple(dict.fromkeys((*first, *through, *listed)))
