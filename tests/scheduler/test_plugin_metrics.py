"""Calls of plugins and their plans are counted in every cycle, and measured in one of ten."""

from dataclasses import replace

import numpy as np

from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    NodeFilter,
    NodeScorer,
    Placement,
    Plugin,
    Reserver,
    Scope,
    Traits,
)
from holdfast.scheduling.framework.points import Point
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.scheduling.scheduler.metrics import SAMPLE_EVERY, Meter, Metrics
from holdfast.testing import a_node, a_pod, typed
from scheduler.metrics_page import Page

NODES = 3
SECONDS = {
    Point.PRE_FILTER: 1, Point.FILTER: 2, Point.PRE_SCORE: 4, Point.SCORE: 8, Point.RESERVE: 16,
    Point.PERMIT: 32,
}  # fmt: skip
"""How long one call takes."""
COUNTED = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)


class SlowPlan(NodeFilter, NodeScorer, Reserver):
    reason = "closed"

    def __init__(self, plugin):
        self.spend, self.verdict = plugin.spend, plugin.verdict

    def filter(self, rows, change=NO_CHANGE):
        self.spend(Point.FILTER)
        return np.full(len(rows), self.verdict, np.int8)

    def pre_score(self, feasible):
        self.spend(Point.PRE_SCORE)

    def score(self, rows):
        self.spend(Point.SCORE)
        return np.zeros(len(rows))

    def reserve(self, placement):
        self.spend(Point.RESERVE)

    def unreserve(self, placement):
        pass


class RowPlan(NodeFilter, NodeScorer):
    """Has results of rows that are cached."""

    reason = "closed"

    def __init__(self, plugin):
        self.spend = plugin.spend

    def filter(self, rows, change=NO_CHANGE):
        return np.array([self.filter_row(row) for row in rows], np.int8)

    def filter_row(self, row, change=NO_CHANGE):
        self.spend(Point.FILTER)
        return 0

    def score(self, rows):
        return np.array([self.score_row(row) for row in rows], np.float64)

    def score_row(self, row):
        self.spend(Point.SCORE)
        return 0.0


class SlowPlugin(Plugin):
    """Its calls take time, which only they let pass: ``seconds``."""

    name = "SlowPlugin"

    def __init__(self, plan=SlowPlan, scope=Scope.CLUSTER, verdict=0):
        self.plan_classes, self.traits = (plan,), Traits(scope)
        self.verdict = verdict
        self.seconds = 0.0

    def spend(self, point):
        self.seconds += SECONDS[point]

    def reads(self, pod, view):
        return None

    def pre_filter(self, pod, view):
        self.spend(Point.PRE_FILTER)
        return self.plan_classes[0](self)

    def permit(self, placement, waiting):
        self.spend(Point.PERMIT)


class Cycles:
    """Scheduling cycles of a metered profile with one plugin."""

    def __init__(self, plugin):
        self.world, self.count, self._metrics = World(), 0, Metrics()
        self._meter = Meter(self._metrics, lambda: plugin.seconds)
        self._profile = replace(Profile("p", (plugin,)), meter=self._meter)
        for i in range(NODES):
            self.world.upsert(typed(a_node(f"n{i}")))

    def run(self, count):
        for _ in range(count):
            self.count += 1
            self._meter.begin()
            pod, rng = self.world.pod_info(typed(a_pod(f"p{self.count}"))), np.random.default_rng(0)
            outcome = schedule_pod(self._profile, self._profile.view(pod, self.world, 0.0), rng)
            self._meter.end("p", placed=isinstance(outcome, Placement))

    def evaluations(self):
        """Return the number of evaluations by point."""
        return [self._value("plugin_evaluation_total", point, profile="p") for point in COUNTED]

    def durations(self, what="plugin_execution", **labels):
        """Return the number of measured calls and their seconds, by point."""
        name = f"{what}_duration_seconds"
        found = {
            point: tuple(self._value(name, point, end, **labels) for end in ("_count", "_sum"))
            for point in Point
        }
        return {point: values for point, values in found.items() if any(values)}

    def _value(self, name, point, suffix="", **labels):
        page = Page(self._metrics.page().decode())
        return page.value(name, suffix, extension_point=point.upstream_name, **labels)


def test_calls_of_a_plan_are_counted_in_each_cycle_and_measured_in_one_of_ten():
    cycles = Cycles(SlowPlugin())
    each = np.array([1, NODES, 1, NODES])
    cycles.run(SAMPLE_EVERY - 1)
    assert cycles.evaluations() == (each * (SAMPLE_EVERY - 1)).tolist()
    assert cycles.durations() == cycles.durations("framework_extension_point") == {}
    measured = {point: (1, seconds) for point, seconds in SECONDS.items()}
    for count in (SAMPLE_EVERY, SAMPLE_EVERY + 1):
        cycles.run(1)
        assert cycles.evaluations() == (each * count).tolist()
        assert cycles.durations(plugin="SlowPlugin", status="Success") == measured
        assert cycles.durations() == measured
        of_points = cycles.durations("framework_extension_point", profile="p", status="Success")
        assert of_points == measured


def test_only_the_rows_that_changed_are_counted_and_measured():
    cycles = Cycles(SlowPlugin(RowPlan, Scope.ROW))
    cycles.run(1)
    assert cycles.evaluations() == [1, NODES, 0, NODES]
    cycles.run(SAMPLE_EVERY - 2)
    rows = NODES + SAMPLE_EVERY - 2  # each pod changes one row
    assert cycles.evaluations() == [1, rows, 0, rows]
    assert cycles.durations() == {}
    cycles.run(1)
    assert cycles.evaluations() == [1, rows + 1, 0, rows + 1]
    points = (Point.FILTER, Point.SCORE, Point.PERMIT)
    assert cycles.durations() == {point: (1, SECONDS[point]) for point in points}


def test_a_cycle_without_a_placement_has_an_unschedulable_filter():
    cycles = Cycles(SlowPlugin(verdict=1))
    cycles.run(SAMPLE_EVERY)
    calls = 2  # to find a node, and to say why there is none
    assert cycles.evaluations() == [SAMPLE_EVERY, calls * NODES * SAMPLE_EVERY, 0, 0]
    spent = calls * SECONDS[Point.FILTER]
    of_points = cycles.durations("framework_extension_point", status="Unschedulable")
    assert of_points == {Point.FILTER: (1, spent)}
    measured = {Point.PRE_FILTER: (1, SECONDS[Point.PRE_FILTER]), Point.FILTER: (calls, spent)}
    assert cycles.durations(status="Success") == measured
