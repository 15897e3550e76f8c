"""Build a profile from the file: its plugins, the plugins of each extension point, and weights.

Plugin sets are merged with the defaults and expanded into one list per point, by upstream's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.api.field_errors import invalid
from holdfast.runtime.errors import Cause
from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.document import (
    PluginRef,
    PluginSet,
    PluginSets,
    ProfileDocument,
)
from holdfast.scheduling.configuration.plugin_instances import (
    REMOVED,
    PluginInstances,
    removed_plugin_error,
    type_name,
)
from holdfast.scheduling.configuration.problems import Problems
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import Plugin
from holdfast.scheduling.framework.points import Point, has_point
from holdfast.scheduling.plugins.reservation import ReservationPlugin

MOST_TOTAL = 2**63 - 1
RESERVATION = "Reservation"
PREEMPTION = "DefaultPreemption"
Lists = Mapping[Point, tuple[str, ...]]
_UPSTREAM = {
    "SchedulingGates": "preEnqueue",
    "PrioritySort": "queueSort",
    "NodeUnschedulable": "filter",
    "NodeName": "filter",
    "TaintToleration": "filter preScore score",
    "NodeAffinity": "preFilter filter preScore score",
    "NodePorts": "preFilter filter",
    "NodeResourcesFit": "preFilter filter preScore score",
    "VolumeRestrictions": "preFilter filter",
    "NodeVolumeLimits": "preFilter filter",
    "VolumeBinding": "preFilter filter preScore score reserve preBind",
    "VolumeZone": "preFilter filter",
    "PodTopologySpread": "preFilter filter preScore score",
    "InterPodAffinity": "preFilter filter preScore score",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "DefaultPreemption": "preEnqueue postFilter",
    "NodeResourcesBalancedAllocation": "preScore score",
    "ImageLocality": "score",
    "DefaultBinder": "bind",
    "NodeDeclaredFeatures": "preFilter filter",
    "Reservation": "preFilter filter postFilter preScore score reserve preBind bind",
}
"""The extension points that upstream's plugins implement. Ours may need fewer of them."""


class ProfileBuilder:
    """Builds one profile; ``path`` is its field path in the file."""

    def __init__(
        self, name: str, path: str, document: ProfileDocument, catalog: Catalog, problems: Problems
    ) -> None:
        self._name = name
        self._path = f"{path}.plugins"
        self._sets = document.plugins
        self._problems = problems
        self._instances = PluginInstances(catalog, problems)
        self._plugins = self._instances.plugins
        defaults = [PluginRef(e.name, e.weight) for e in catalog.registry if e.default]
        self._multi = merge_plugins(defaults, document.plugins.multi_point)
        self._config = (document.plugin_config, f"{path}.pluginConfig")

    def build(self, ignored: Sequence[str] = ()) -> Profile:
        """Build the profile; it must not be used if errors were added to the problems."""
        self._check_sets()
        self._instances.make(self._needed(), *self._config, ignored)
        lists = {point: self._list(point) for point in Point}
        self._check_registered(lists)
        self._check_ends(lists)
        self._warn(lists)
        used = {name for names in lists.values() for name in names}
        plugins = tuple(p for name, p in self._plugins.items() if name in used)
        self._check_names(plugins)
        by_point = {point: self._chosen(names) for point, names in lists.items()}
        # A filter plugin needs its preFilter, even if that is not listed there.
        preparing = self._chosen((*lists[Point.PRE_FILTER], *lists[Point.FILTER]))
        by_point[Point.PRE_FILTER] = tuple(p for p in preparing if has_point(p, Point.PRE_FILTER))
        return Profile(self._name, plugins, self._weights(), by_point)

    def _chosen(self, names: Iterable[str]) -> tuple[Plugin, ...]:
        return tuple(self._plugins[n] for n in dict.fromkeys(names) if n in self._plugins)

    def _named(self) -> Iterable[tuple[str, PluginRef]]:
        """Yield the field path and reference of every enabled plugin."""
        for field in PluginSets.__struct_fields__:
            own: PluginSet = getattr(self._sets, field)
            for i, ref in enumerate(own.enabled):
                yield f"{self._path}.{_camel(field)}.enabled[{i}]", ref

    def _needed(self) -> dict[str, str]:
        """Return the plugins to create, in the order of multiPoint, with the first path of each."""
        needed = {ref.name: "" for ref in self._multi}
        for path, ref in self._named():
            needed[ref.name] = needed.get(ref.name) or path
        return {name: where for name, where in needed.items() if name not in REMOVED}

    # --- errors -----------------------------------------------------------------------------

    def _check_sets(self) -> None:
        for path, ref in self._named():
            if ref.name in REMOVED:
                self._problems.add_errors(removed_plugin_error(path, ref.name))
            if ref.weight < 0:
                self._problems.add_errors(
                    invalid(f"{path}.weight", ref.weight, "must not be negative")
                )
        for field in ("placement_generate", "placement_score"):
            if getattr(self._sets, field).enabled:
                message = "workload scheduling is not built; leave it out"
                self._problems.add_not_built(f"{self._path}.{_camel(field)}", message)

    def _list(self, point: Point) -> tuple[str, ...]:
        own: PluginSet = getattr(self._sets, field_of(point))
        for i, ref in enumerate(own.enabled):
            if ref.name in self._plugins and not self._extends(ref.name, point):
                message = f'plugin "{ref.name}" does not extend {type_name(point)} plugin'
                self._problems.add_errors(Cause(f"{self._path}.{point}.enabled[{i}]", message))
        return expand_point(own, self._multi, lambda name: self._extends(name, point))

    def _extends(self, name: str, point: Point) -> bool:
        plugin = self._plugins.get(name)
        return plugin is not None and extends(name, plugin, point)

    def _check_registered(self, lists: Lists) -> None:
        """Reject a plugin that is enabled twice in one set."""
        seen: set[tuple[str, str]] = set()
        for path, ref in self._named():
            at = path.removeprefix(f"{self._path}.").partition(".")[0]
            if (at, ref.name) in seen:
                own = [p for p in Point if p == at]
                own += [p for p in Point if ref.name in lists[p]]
                kind = type_name(own[0]) if own else "plugin"
                message = f'plugin "{ref.name}" already registered as "{kind}"'
                self._problems.add_errors(Cause(path, message, "FieldValueDuplicate"))
            seen.add((at, ref.name))

    def _check_ends(self, lists: Lists) -> None:
        """Require exactly one queue sort plugin and at least one bind plugin."""
        sorting = len(self._chosen(lists[Point.QUEUE_SORT]))
        if sorting != 1:
            self._problems.add_errors(Cause(
                f"{self._path}.queueSort", "only one queue sort plugin required for profile with "
                f'scheduler name "{self._name}", but got {sorting}',
            ))  # fmt: skip
        if not lists[Point.BIND]:
            message = "at least one bind plugin is needed for profile with scheduler name"
            self._problems.add_errors(Cause(f"{self._path}.bind", f'{message} "{self._name}"'))

    def _check_names(self, plugins: Sequence[Plugin]) -> None:
        names = [plugin.name for plugin in plugins]
        for name in sorted({name for name in names if names.count(name) > 1}):
            message = f'two plugins are named "{name}": rename one of them'
            self._problems.add_errors(Cause(self._path, message, "FieldValueDuplicate"))

    def _weights(self) -> dict[str, int]:
        """Return score weights by plugin name; the score set takes precedence, 0 means 1."""
        weights: dict[str, int] = {}
        for ref in (*self._sets.score.enabled, *self._multi):
            if self._extends(ref.name, Point.SCORE):
                weights.setdefault(self._plugins[ref.name].name, ref.weight or 1)
        if sum(weights.values()) * 100 > MOST_TOTAL:
            message = "score plugins: total score of Score plugins could overflow"
            self._problems.add_errors(Cause(f"{self._path}.score", message))
        return weights

    # --- warnings ---------------------------------------------------------------------------

    def _warn(self, lists: Lists) -> None:
        for point, later in (
            (Point.PRE_FILTER, Point.FILTER),
            (Point.PRE_SCORE, Point.SCORE),
        ):
            disabled = getattr(self._sets, field_of(point)).disabled_names
            broken = [
                name
                for name in lists[later]
                if name not in lists[point]
                and disabled & {"*", name}
                and self._extends(name, point)
            ]
            if broken:
                self._problems.add_warning(
                    f"{self._path}.{point}.disabled: {', '.join(broken)} cannot {later} "
                    f"without {point}, so it runs all the same; disable both or neither"
                )
        if RESERVATION in lists[Point.FILTER] and RESERVATION not in lists[Point.RESERVE]:
            self._problems.add_warning(
                f"{self._path}.reserve: Reservation filters but does not reserve: owners may use "
                "reserved resources, but what they allocate is not counted"
            )
        if PREEMPTION not in lists[Point.POST_FILTER] and self._reservations_preempt(lists):
            self._problems.add_warning(
                f"{self._path}.postFilter: enablePreemption of Reservation has no effect without "
                "DefaultPreemption, which finds the victims"
            )

    def _reservations_preempt(self, lists: Lists) -> bool:
        plugin = self._plugins.get(RESERVATION)
        on = isinstance(plugin, ReservationPlugin) and plugin.args.enable_preemption
        return on and RESERVATION in lists[Point.FILTER]


def _camel(field: str) -> str:
    head, *rest = field.split("_")
    return head + "".join(word.capitalize() for word in rest)


def merge_plugins(defaults: Sequence[PluginRef], custom: PluginSet) -> tuple[PluginRef, ...]:
    """Merge a user's plugin set with the default plugins.

    A default plugin that the user enables keeps its place and gets the user's weight. Disabled
    ones are removed. The user's other plugins are appended.

    >>> a, b, c = PluginRef("a", 2), PluginRef("b"), PluginRef("c")
    >>> [ref.name for ref in merge_plugins([a, b], PluginSet((c, a), (b,)))]
    ['a', 'c']
    """
    disabled = custom.disabled_names
    position = {ref.name: i for i, ref in enumerate(custom.enabled)}
    placed: set[int] = set()
    merged: list[PluginRef] = []
    for ref in () if "*" in disabled else defaults:
        if ref.name in disabled:
            continue
        at = position.get(ref.name)
        if at is None:
            merged.append(ref)
        else:
            merged.append(custom.enabled[at])
            placed.add(at)
    return (*merged, *(ref for i, ref in enumerate(custom.enabled) if i not in placed))


def expand_point(
    own: PluginSet, multi: Sequence[PluginRef], extends: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return the plugin names of an extension point, in order.

    First the plugins of the point's own set that are also in multiPoint, then the other plugins of
    multiPoint that implement the point and are not disabled there, then the rest of the own set.
    """
    listed = [ref.name for ref in own.enabled]
    if "*" in own.disabled_names:
        return tuple(dict.fromkeys(listed))
    through = [
        ref.name for ref in multi if ref.name not in own.disabled_names and extends(ref.name)
    ]
    first = [name for name in listed if name in through]
    return tuple(dict.fromkeys((*first, *through, *listed)))


def extends(name: str, plugin: Plugin, point: Point) -> bool:
    """Return whether a plugin may be enabled at a point: it has the point here, or upstream.

    Some of our plugins have a preFilter that upstream's lack; those cannot be named there.
    """
    upstream = _UPSTREAM.get(name)
    if upstream is not None and (point is Point.PRE_FILTER or point in upstream.split()):
        return point in upstream.split()
    return has_point(plugin, point)


def field_of(point: Point) -> str:
    """Return the field of ``PluginSets`` for a point.

    >>> field_of(Point.PRE_BIND)
    'pre_bind'
    """
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in point)
