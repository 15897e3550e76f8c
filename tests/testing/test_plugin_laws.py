"""``check_plugin`` rejects plugins with wrong traits and declarations."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from conformance.faulty_plugins import with_plan
from holdfast.scheduling.framework.declarations import declaration_fault
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    NodeFilter,
    NodeScorer,
    Plugin,
    PostFilterResult,
    PreemptionRules,
    Reserver,
    Scope,
    Tiers,
    Traits,
)
from holdfast.scheduling.framework.reservation_options import (
    ReservationAllocator,
    ReservationFilter,
)
from holdfast.scheduling.plugins.image_locality import ImageLocality
from holdfast.scheduling.plugins.node_name import NodeName, OnlyNode
from holdfast.scheduling.plugins.node_resources_fit import NodeResourcesFit
from holdfast.scheduling.plugins.node_resources_fit.plugin import FitPlan
from holdfast.scheduling.plugins.pod_topology_spread import PodTopologySpread
from holdfast.scheduling.plugins.taint_toleration import TaintToleration, ToleratedTaints
from holdfast.testing import check_plugin


class OnlyAttributes(Plugin):
    """Declares its traits as class attributes only."""

    name = "OnlyAttributes"
    scope = Scope.ROW
    epochs = ()

    def __init__(self, args):
        pass


class OneAttribute(NodeName):
    """Has traits, and one of them as an attribute, where it has no effect."""

    scope = Scope.ROW


class Undeclared(NodeName):
    traits = None


class ScopedTooNarrowly(NodeResourcesFit):
    """Uses the pods of a node, but declares scope NODE."""

    traits = replace(NodeResourcesFit.traits, scope=Scope.NODE)


class ReadsAnnotations(NodeName):
    """Reads annotations without ``reads_outside_spec``."""

    def reads(self, pod, view):
        return (super().reads(pod, view), tuple(pod.pod.metadata.annotations))


class IncompleteKey(PodTopologySpread):
    """Reads the pod's owner, which ``key_outside_spec`` does not return."""

    def reads(self, pod, view):
        return (super().reads(pod, view), pod.uid)

    def key_outside_spec(self, pod, view):
        return None


class UnusedKey(NodeName):
    """Has ``key_outside_spec`` without ``reads_outside_spec``."""

    def key_outside_spec(self, pod, view):
        return None


class ReadsWhatItIgnores(NodeResourcesFit):
    traits = replace(NodeResourcesFit.traits, ignores_requests=True)


class WrongForSlices(ToleratedTaints):
    __slots__ = ()

    def filter(self, rows, change=NO_CHANGE):
        verdicts = super().filter(rows, change)
        return np.zeros_like(verdicts) if isinstance(rows, slice) else verdicts


class UnboundedScores(ToleratedTaints):
    """They are in 0..100 only if all rows have the same raw score."""

    __slots__ = ()

    def normalize_by_range(self, raw, low, high):
        return super().normalize_by_range(raw, low, high) + (raw - low) * 200


class Unbounded(with_plan(TaintToleration, UnboundedScores)):
    traits = replace(TaintToleration.traits, bounded_scores=True)


@dataclass(frozen=True)
class Rows(NodeScorer):
    of: np.ndarray

    def score(self, rows):
        return np.zeros(len(self.of[rows]))


class Incomparable(ImageLocality):
    """Has plans that cannot be compared."""

    plan_classes = (Rows,)

    def pre_filter(self, pod, view):
        return Rows(view.nodes.alive.copy())


class UnnamedPlan(NodeName):
    plan_classes = (ToleratedTaints,)

    def pre_filter(self, pod, view):
        return OnlyNode(view.nodes, "n1")


class NeedsItsPlan(TaintToleration):
    traits = replace(TaintToleration.traits, post_filter_without_plan=True)

    def post_filter(self, rejection, view):
        return PostFilterResult(self.name, str(rejection.plans.get(self.name).tolerations))


@pytest.mark.parametrize(
    ("plugin", "law"),
    [
        (
            OnlyAttributes,
            r"sets scope, epochs, which has no effect: write `traits = Traits\(scope=",
        ),
        (OneAttribute, "sets scope, which has no effect"),
        (Undeclared, r"has no traits: write `traits = Traits\(\)`"),
        (ScopedTooNarrowly, "incremental equals full"),
        (ReadsAnnotations, "reads uses the spec only"),
        (IncompleteKey, "key_outside_spec has all that reads uses outside the spec"),
        (UnusedKey, "key_outside_spec is called only for a plugin with reads_outside_spec"),
        (ReadsWhatItIgnores, "reads ignores requests"),
        (with_plan(TaintToleration, WrongForSlices), "slice equals rows|incremental equals full"),
        (Unbounded, "scores end in 0..100"),
        (Incomparable, "plans are comparable"),
        (UnnamedPlan, "pre_filter returned an object of OnlyNode: return Skip"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_trait_is_found(plugin, law):
    with pytest.raises(AssertionError, match=law):
        check_plugin(lambda: plugin({}))


class PassesEach(FitPlan):
    """Says of each row alone that it passes."""

    __slots__ = ()

    def filter_each(self, rows):
        return np.zeros(len(rows), np.int8)


def test_verdicts_of_single_rows_equal_those_of_filter():
    plugin = with_plan(NodeResourcesFit, PassesEach)
    with pytest.raises(AssertionError, match="filter_each equals filter of each row alone"):
        check_plugin(lambda: plugin({}))


def test_post_filter_without_plan_is_tested_without_a_plan():
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'tolerations'"):
        check_plugin(lambda: NeedsItsPlan({}))


class NotTaken(NodeFilter, Reserver):
    """Its ``unreserve`` does not undo ``reserve``."""

    reason = "node(s) were reserved"

    def __init__(self, taken):
        self.taken = taken

    def filter(self, rows, change=NO_CHANGE):
        return np.isin(rows, self.taken).astype(np.int8)

    def reserve(self, placement):
        self.taken.append(placement.row)

    def unreserve(self, placement):
        pass


class NeverUnreserves(Plugin):
    name = "NeverUnreserves"
    plan_classes = (NotTaken,)

    def __init__(self):
        self.taken = []

    def pre_filter(self, pod, view):
        return NotTaken(self.taken)


def test_unreserve_that_does_nothing_is_found():
    with pytest.raises(AssertionError, match="reserve then unreserve is identity"):
        check_plugin(NeverUnreserves)


def method(*_arguments):
    """Any method; it is not called."""


def plugin_class(*bases, **members):
    return type("Own", bases or (Plugin,), {"name": "Own", **members})


def with_plans(*classes, **members):
    return plugin_class(plan_classes=classes, pre_filter=method, **members)


def plan_class(*bases, **members):
    return type("OwnPlan", bases, members)


COMPLETE = {"filter": method, "reason": "node(s) did not fit"}


@pytest.mark.parametrize(
    ("plugin", "fault"),
    [
        (
            plugin_class(filter=method),
            "class Own has a method filter, which is never called: write it in a class derived "
            "from NodeFilter, which pre_filter returns",
        ),
        (plugin_class(pre_bind=method), "in a class derived from Reserver"),
        (plugin_class(with_options=method), "in a class derived from ReservationAllocator"),
        (
            plugin_class(pre_filter=method),
            "name the classes of what it returns, `plan_classes = (MyPlan,)`",
        ),
        (
            plugin_class(plan_classes=(OnlyNode,)),
            "class Own has no pre_filter, so nothing returns its plan",
        ),
        (with_plans(OnlyNode, traits=Traits(scope=Scope.ROW)), "class Own has no method reads"),
        (with_plans(plan_class(ReservationFilter)), "its scope must not be CLUSTER"),
        (with_plans(int), "class int is no plan: derive it from NodeFilter, NodeScorer, Tiers, "),
        (
            with_plans(plan_class(NodeFilter, reason="no")),
            "class OwnPlan is a NodeFilter without a method filter",
        ),
        (
            with_plans(plan_class(NodeFilter, filter=method)),
            "class OwnPlan is a NodeFilter without `reason: str` or a method reasons",
        ),
        (
            with_plans(plan_class(PreemptionRules, pod_limits=method)),
            "class OwnPlan has PreemptionRules, but is no NodeFilter",
        ),
        (
            with_plans(plan_class(NodeScorer)),
            "class OwnPlan is a NodeScorer without a method score",
        ),
        (
            with_plans(plan_class(Reserver)),
            "class OwnPlan is a Reserver without reserve, pre_bind or post_bind",
        ),
        (with_plans(plan_class(Tiers)), "class OwnPlan has Tiers without a method tier"),
        (plugin_class(event_keys=method), "class Own has a method event_keys, but not pod_keys"),
        (plugin_class(pod_keys=method), "class Own has a method pod_keys, but not event_keys"),
        (
            with_plans(plan_class(ReservationAllocator, **COMPLETE)),
            "class OwnPlan is a ReservationAllocator without a method with_options",
        ),
        (plugin_class(object), "class Own is no plugin: derive it from Plugin"),
        (plugin_class(traits=Traits(scope="row")), "class Own: scope is 'row': write a member of"),
        (plugin_class(traits=Traits(epochs="images")), "class Own: epochs is 'images': write a "),
        (
            plugin_class(traits=Traits(events_to_register={"Pod": None})),
            "class Own: events_to_register is {'Pod': None}: write a dict with a tuple of actions",
        ),
        (plugin_class(plan_classes=OnlyNode), "write a tuple of classes"),
        (
            with_plans(OnlyNode, traits=Traits(reads_outside_spec=True)),
            "class Own has reads_outside_spec, but no method reads",
        ),
        (
            plugin_class(traits=Traits(epochs=("layuot",))),
            "class Own: 'layuot' is no epoch: did you mean layout",
        ),
        (
            plugin_class(traits=Traits(events_to_register={"Nodes": ()})),
            "class Own: 'Nodes' is no resource of events: did you mean Node",
        ),
        (
            plugin_class(traits=Traits(events_to_register={"Node": ("Created",)})),
            "class Own: 'Created' is no action of events: ",
        ),
    ],
)
def test_a_wrong_declaration_is_found(plugin, fault):
    assert fault in declaration_fault(plugin())


@pytest.mark.parametrize(
    ("method_name", "other"),
    [
        ("reserve", "unreserve"), ("unreserve", "reserve"), ("pre_bind", "undo_pre_bind"),
        ("undo_pre_bind", "pre_bind"),
    ],
)  # fmt: skip
def test_methods_of_a_plan_belong_together(method_name, other):
    alone = with_plans(plan_class(Reserver, post_bind=method, **{method_name: method}))
    wanted = f"class OwnPlan has a method {method_name}, but not {other}"
    assert declaration_fault(alone()) == wanted
    both = with_plans(plan_class(Reserver, **{method_name: method, other: method}))
    assert declaration_fault(both()) == ""


def test_a_plugin_may_be_its_own_plan():
    own = plugin_class(Plugin, NodeFilter, pre_filter=method, **COMPLETE)
    assert declaration_fault(own()) == ""
    silent = plugin_class(Plugin, NodeFilter, pre_filter=method, filter=method)
    assert "class Own is a NodeFilter without `reason: str`" in declaration_fault(silent())


def test_a_complete_declaration_has_no_fault():
    plans = (
        plan_class(NodeFilter, PreemptionRules, **COMPLETE),
        plan_class(NodeScorer, score=method),
    )
    traits = Traits(scope=Scope.ROW)
    found = with_plans(*plans, traits=traits, reads=method, event_keys=method, pod_keys=method)
    assert declaration_fault(found()) == ""
