"""Every registered plugin passes the conformance suite; a plugin with a fault does not."""

import numpy as np
import pytest

from holdfast.plugins import REGISTRY
from holdfast.plugins.node_resources_fit import NodeResourcesFit
from holdfast.plugins.taint_toleration import TaintToleration
from holdfast.testing.conformance import check_plugin


@pytest.mark.parametrize("entry", REGISTRY, ids=lambda entry: entry.name)
def test_registered_plugin_conforms(entry):
    check_plugin(lambda: entry.factory({}))


class ForgetsThePod(NodeResourcesFit):
    """Its twin answers for an empty request."""

    def row(self, state, row):
        return 0, super().row(state, row)[1]


class LooksAtTheNeighbours(NodeResourcesFit):
    """A row's answer depends on which other rows were asked about."""

    def score(self, state, rows):
        raw = super().score(state, rows)
        return np.floor(raw / max(1, len(raw)))


class Meddles(NodeResourcesFit):
    """Writes to a column."""

    def filter(self, state, rows, *rest):
        state.amounts.requested[0, 0] += 1
        return super().filter(state, rows, *rest)


class IgnoresChanges(NodeResourcesFit):
    """Answers a hypothesis as if it had not been put."""

    def filter(self, state, rows, *_rest):
        return super().filter(state, rows)


class NeverLearns(TaintToleration):
    """Scores every taint set as the first."""

    def score(self, state, rows):
        state.learn()
        return state.unwanted.take(np.zeros_like(state.nodes.taint_set[rows]))


class SpeechlessTaints(TaintToleration):
    """Rejects without a word."""

    def reasons(self, *_args):
        return ()


@pytest.mark.parametrize(
    ("plugin", "law"),
    [
        (ForgetsThePod, "incremental equals full|scalar twin equals vector"),
        (LooksAtTheNeighbours, "invariance|incremental"),
        (Meddles, "inputs unchanged|what would be"),
        (IgnoresChanges, "a change answers what would be|one row under a change equals many"),
        (NeverLearns, "scalar twin equals vector|incremental equals full"),
        (SpeechlessTaints, "a rejection has reasons"),
    ],
)
def test_a_faulty_plugin_is_found_out(plugin, law):
    with pytest.raises(AssertionError, match=law):
        check_plugin(lambda: plugin({}))
