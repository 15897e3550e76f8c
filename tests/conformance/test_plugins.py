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


VOLUME_PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")


def with_volumes(cluster):
    pod = cluster.a_waiting_pod()
    while not pod.spec.volumes or any(volume.ephemeral is not None for volume in pod.spec.volumes):
        pod = cluster.a_waiting_pod()
    return pod


@pytest.mark.parametrize("name", VOLUME_PLUGINS)
def test_plugins_that_look_at_volumes_conform(name):
    entry = next(entry for entry in REGISTRY if entry.name == name)
    check_plugin(lambda: entry.factory({}), pods=with_volumes, seed=7, clusters=6, steps=60)


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
