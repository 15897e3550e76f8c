"""``check_plugin`` rejects plugins with wrong traits."""

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


class OnlyAttributes:
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


class WrongForSlices(TaintToleration):
    def filter(self, state, rows, *rest):
        verdicts = super().filter(state, rows, *rest)
        return np.zeros_like(verdicts) if isinstance(rows, slice) else verdicts


class Unbounded(TaintToleration):
    """Its scores are in 0..100 only if all rows have the same raw score."""

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
        (WrongForSlices, "slice equals rows|incremental equals full"),
        (Unbounded, "scores end in 0..100"),
        (Incomparable, "states are comparable"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_trait_is_found(plugin, law):
    with pytest.raises(AssertionError, match=law):
        check_plugin(lambda: plugin({}))


class PassesEach(NodeResourcesFit):
    """Says of each row alone that it passes."""

    def filter_each(self, state, rows):
        return np.zeros(len(rows), np.int8)


def test_verdicts_of_single_rows_equal_those_of_filter():
    with pytest.raises(AssertionError, match="filter_each equals filter of each row alone"):
        check_plugin(lambda: PassesEach({}))


def test_post_filter_without_state_is_tested_without_a_state():
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'node'"):
        check_plugin(lambda: NeedsItsState({}))


class NeverUnreserves:
    """Its ``unreserve`` does not undo ``reserve``."""

    name = "NeverUnreserves"
    traits = Traits()

    def __init__(self):
        self.taken = []

    def reads(self, pod, view):
        return None

    def filter(self, state, rows, change=None):
        return np.isin(rows, self.taken).astype(np.int8)

    def reasons(self, state, row, change=None):
        return ("node(s) were reserved",)

    def reserve(self, state, placement):
        self.taken.append(placement.row)

    def unreserve(self, state, placement):
        pass


def test_unreserve_that_does_nothing_is_found():
    with pytest.raises(AssertionError, match="reserve then unreserve is identity"):
        check_plugin(NeverUnreserves)
