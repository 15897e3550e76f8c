"""Make a profile of what the file says: plugins, a list of them for each point, weights.

Its sets are merged with the defaults and expanded into one list a point by upstream's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.api.causes import invalid
from holdfast.configuration import points
from holdfast.configuration.catalog import Catalog
from holdfast.configuration.document import PluginRef, PluginSet, PluginSets, ProfileDocument
from holdfast.configuration.findings import Findings
from holdfast.configuration.instances import REMOVED, Instances, removed
from holdfast.configuration.points import POINTS, Point
from holdfast.engine.profile import Profile
from holdfast.errors import Cause
from holdfast.framework.plugin import Plugin, PreFilterPlugin, implements
from holdfast.plugins.reservation import ReservationPlugin

MOST_TOTAL = 2**63 - 1
RESERVATION = "Reservation"
PREEMPTION = "DefaultPreemption"
Lists = Mapping[Point, tuple[str, ...]]


class ProfileReading:
    """One profile being read; ``path`` is where it stands in the file."""

    def __init__(
        self, name: str, path: str, document: ProfileDocument, catalog: Catalog, found: Findings
    ) -> None:
        self._name = name
        self._path = f"{path}.plugins"
        self._sets = document.plugins
        self._found = found
        self._instances = Instances(catalog, found)
        self._plugins = self._instances.plugins
        defaults = [PluginRef(e.name, e.weight) for e in catalog.registry if e.default]
        self._multi = merged(defaults, document.plugins.multi_point)
        self._config = (document.plugin_config, f"{path}.pluginConfig")

    def profile(self, ignored: Sequence[str] = ()) -> Profile:
        """Read everything; good for something only if nothing wrong was found."""
        self._check_sets()
        self._instances.make(self._needed(), *self._config, ignored)
        lists = {point: self._list(point) for point in POINTS}
        self._check_registered(lists)
        self._check_ends(lists)
        self._warn(lists)
        used = {name for names in lists.values() for name in names}
        plugins = tuple(p for name, p in self._plugins.items() if name in used)
        self._check_names(plugins)
        by_protocol = {
            point.protocol: self._chosen(names)
            for point, names in lists.items()
            if point.protocol is not None
        }
        # Whoever filters must prepare, and what it says then counts.
        preparing = self._chosen((*lists[points.PRE_FILTER], *lists[points.FILTER]))
        by_protocol[PreFilterPlugin] = tuple(p for p in preparing if implements(p, PreFilterPlugin))
        return Profile(self._name, plugins, self._weights(), by_protocol)

    def _chosen(self, names: Iterable[str]) -> tuple[Plugin, ...]:
        return tuple(self._plugins[n] for n in dict.fromkeys(names) if n in self._plugins)

    def _named(self) -> Iterable[tuple[str, PluginRef]]:
        """Every plugin named in a set, and where."""
        for field in PluginSets.__struct_fields__:
            own: PluginSet = getattr(self._sets, field)
            for i, ref in enumerate(own.enabled):
                yield f"{self._path}.{_camel(field)}.enabled[{i}]", ref

    def _needed(self) -> dict[str, str]:
        """What must be made, in the order of multiPoint, and where it is named first."""
        needed = {ref.name: "" for ref in self._multi}
        for path, ref in self._named():
            needed[ref.name] = needed.get(ref.name) or path
        return {name: where for name, where in needed.items() if name not in REMOVED}

    # --- what may be wrong ------------------------------------------------------------------

    def _check_sets(self) -> None:
        for path, ref in self._named():
            if ref.name in REMOVED:
                self._found.wrong(removed(path, ref.name))
            if ref.weight < 0:
                self._found.wrong(invalid(f"{path}.weight", ref.weight, "must not be negative"))
        for field in ("placement_generate", "placement_score"):
            if getattr(self._sets, field).enabled:
                words = "workload scheduling is not built; leave it out"
                self._found.not_built(f"{self._path}.{_camel(field)}", words)

    def _list(self, point: Point) -> tuple[str, ...]:
        own: PluginSet = getattr(self._sets, point.field)
        for i, ref in enumerate(own.enabled):
            if ref.name in self._plugins and not self._extends(ref.name, point):
                words = f'plugin "{ref.name}" does not extend {point.type_name} plugin'
                self._found.wrong(Cause(f"{self._path}.{point.name}.enabled[{i}]", words))
        return expanded(own, self._multi, lambda name: self._extends(name, point))

    def _extends(self, name: str, point: Point) -> bool:
        plugin = self._plugins.get(name)
        return plugin is not None and points.extends(name, plugin, point)

    def _check_registered(self, lists: Lists) -> None:
        """No set may name a plugin twice."""
        seen: set[tuple[str, str]] = set()
        for path, ref in self._named():
            at = path.removeprefix(f"{self._path}.").partition(".")[0]
            if (at, ref.name) in seen:
                own = [p for p in POINTS if p.name == at]
                own += [p for p in POINTS if ref.name in lists[p]]
                kind = own[0].type_name if own else "plugin"
                words = f'plugin "{ref.name}" already registered as "{kind}"'
                self._found.wrong(Cause(path, words, "FieldValueDuplicate"))
            seen.add((at, ref.name))

    def _check_ends(self, lists: Lists) -> None:
        """There is one order of the queue, and somebody who binds."""
        sorting = len(self._chosen(lists[points.QUEUE_SORT]))
        if sorting != 1:
            self._found.wrong(Cause(
                f"{self._path}.queueSort", "only one queue sort plugin required for profile with "
                f'scheduler name "{self._name}", but got {sorting}',
            ))  # fmt: skip
        if not lists[points.BIND]:
            words = "at least one bind plugin is needed for profile with scheduler name"
            self._found.wrong(Cause(f"{self._path}.bind", f'{words} "{self._name}"'))

    def _check_names(self, plugins: Sequence[Plugin]) -> None:
        names = [plugin.name for plugin in plugins]
        for name in sorted({name for name in names if names.count(name) > 1}):
            words = f'two plugins call themselves "{name}": rename one of them'
            self._found.wrong(Cause(self._path, words, "FieldValueDuplicate"))

    def _weights(self) -> dict[str, int]:
        """Score weights by the plugins' own names; those of the score set win, 0 means 1."""
        weights: dict[str, int] = {}
        for ref in (*self._sets.score.enabled, *self._multi):
            if self._extends(ref.name, points.SCORE):
                weights.setdefault(self._plugins[ref.name].name, ref.weight or 1)
        if sum(weights.values()) * 100 > MOST_TOTAL:
            words = "score plugins: total score of Score plugins could overflow"
            self._found.wrong(Cause(f"{self._path}.score", words))
        return weights

    # --- what may not be meant --------------------------------------------------------------

    def _warn(self, lists: Lists) -> None:
        for point, later in ((points.PRE_FILTER, points.FILTER), (points.PRE_SCORE, points.SCORE)):
            off = getattr(self._sets, point.field).off
            odd = [
                name
                for name in lists[later]
                if name not in lists[point] and off & {"*", name} and self._extends(name, point)
            ]
            if odd:
                self._found.warn(
                    f"{self._path}.{point.name}.disabled: {', '.join(odd)} cannot {later.name} "
                    f"without it, so it is done all the same; switch off {later.name} too, or "
                    "neither"
                )
        if RESERVATION in lists[points.FILTER] and RESERVATION not in lists[points.RESERVE]:
            self._found.warn(
                f"{self._path}.reserve: Reservation filters and does not reserve: owners are let "
                "into reserved room, and nobody notes what they take of it"
            )
        if PREEMPTION not in lists[points.POST_FILTER] and self._reservations_preempt(lists):
            self._found.warn(
                f"{self._path}.postFilter: enablePreemption of Reservation has no effect without "
                "DefaultPreemption, which finds the victims"
            )

    def _reservations_preempt(self, lists: Lists) -> bool:
        plugin = self._plugins.get(RESERVATION)
        on = isinstance(plugin, ReservationPlugin) and plugin.args.enable_preemption
        return on and RESERVATION in lists[points.FILTER]


def _camel(field: str) -> str:
    head, *rest = field.split("_")
    return head + "".join(word.capitalize() for word in rest)


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
