"""A plugin whose traits promise too much, or that breaks a promise, is found out."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from holdfast.framework.plugin import PostFilterResult, Scope, Traits
from holdfast.plugins.image_locality import ImageLocality
from holdfast.plugins.node_name import NodeName
from holdfast.plugins.node_resources_fit import NodeResourcesFit
from holdfast.plugins.pod_topology_spread import PodTopologySpread
from holdfast.plugins.taint_toleration import TaintToleration
from holdfast.testing import check_plugin


class OldFashioned:
    """Declares its traits as attributes of its own, and nothing else."""

    name = "OldFashioned"
    scope = Scope.ROW
    epochs = ()

    def __init__(self, args):
        pass


class SetsOneBesides(NodeName):
    """Sets a trait where it is not read."""

    scope = Scope.ROW


class Undeclared(NodeName):
    traits = None


class ScopedTooNarrowly(NodeResourcesFit):
    """Looks at the pods of a node and says that it does not."""

    traits = replace(NodeResourcesFit.traits, scope=Scope.NODE)


class LooksAtAnnotations(NodeName):
    """Reads more than the spec and does not say so."""

    def reads(self, pod, view):
        return (super().reads(pod, view), tuple(pod.pod.metadata.annotations))


class TellsNothing(PodTopologySpread):
    """Reads the pod's owner, and tells nothing of what is beyond the spec."""

    def reads(self, pod, view):
        return (super().reads(pod, view), pod.uid)

    def key_outside_spec(self, pod, view):
        return None


class AskedForNothing(NodeName):
    """Has ``key_outside_spec``, which is not asked without ``reads_outside_spec``."""

    def key_outside_spec(self, pod, view):
        return None


class ReadsWhatItIgnores(NodeResourcesFit):
    traits = replace(NodeResourcesFit.traits, ignores_requests=True)


class AnswersSlicesWrongly(TaintToleration):
    def filter(self, state, rows, *rest):
        verdicts = super().filter(state, rows, *rest)
        return np.zeros_like(verdicts) if isinstance(rows, slice) else verdicts


class Unbounded(TaintToleration):
    """Counts on all rows being ranked."""

    traits = replace(TaintToleration.traits, bounded_scores=True)

    def normalize_by_range(self, state, raw, low, high):
        return super().normalize_by_range(state, raw, low, high) + (raw - low) * 200


@dataclass(frozen=True)
class Rows:
    of: np.ndarray


class Incomparable(ImageLocality):
    """Has states that cannot be compared."""

    def pre_filter(self, pod, view):
        return Rows(view.nodes.alive.copy())

    def score(self, state, rows):
        return np.zeros(len(state.of[rows]))


class NeedsItsState(NodeName):
    traits = Traits(post_filter_without_state=True)

    def post_filter(self, state, rejection, view):
        return PostFilterResult(state.node)


@pytest.mark.parametrize(
    ("plugin", "law"),
    [
        (OldFashioned, r"sets scope, epochs, which has no effect: write `traits = Traits\(scope="),
        (SetsOneBesides, "sets scope, which has no effect"),
        (Undeclared, r"has no traits: write `traits = Traits\(\)`"),
        (ScopedTooNarrowly, "incremental equals full"),
        (LooksAtAnnotations, "reads looks at the spec alone"),
        (TellsNothing, "key_outside_spec has all that reads uses outside the spec"),
        (AskedForNothing, "key_outside_spec is called only for a plugin with reads_outside_spec"),
        (ReadsWhatItIgnores, "reads ignores requests"),
        (AnswersSlicesWrongly, "slice equals rows|incremental equals full"),
        (Unbounded, "scores end in 0..100"),
        (Incomparable, "states are comparable"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_promise_too_much_is_found_out(plugin, law):
    with pytest.raises(AssertionError, match=law):
        check_plugin(lambda: plugin({}))


def test_a_plugin_that_is_asked_unprepared_is_asked_without_a_state():
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'node'"):
        check_plugin(lambda: NeedsItsState({}))


class NeverLetsGo:
    """Keeps the row that was promised after the promise is withdrawn."""

    name = "NeverLetsGo"
    traits = Traits()

    def __init__(self):
        self.taken = []

    def reads(self, pod, view):
        return None

    def filter(self, state, rows, change=None):
        return np.isin(rows, self.taken).astype(np.int8)

    def reasons(self, state, row, change=None):
        return ("node(s) were promised",)

    def reserve(self, state, placement):
        self.taken.append(placement.row)

    def unreserve(self, state, placement):
        pass


def test_a_promise_that_is_not_withdrawn_is_found_out():
    with pytest.raises(AssertionError, match="reserve then unreserve is identity"):
        check_plugin(NeverLetsGo)
