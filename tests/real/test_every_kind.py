"""A real kube-apiserver accepts the samples of every kind."""

import json

import pytest

from apiserver import every_kind

pytestmark = pytest.mark.real
CUSTOM = (
    "core.k8s.io/v1alpha1",
    "dra.holdfast.dev/v1alpha1",
    "example.com/v1",
    "scheduling.koordinator.sh/v1alpha1",
    "scheduling.sigs.x-k8s.io/v1alpha1",
)


def test_upstream_accepts_every_sample(control_plane):
    built_in = [o for o in every_kind.objects() if o["apiVersion"] not in CUSTOM]
    listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": built_in})
    said = control_plane.kubectl("create", "--dry-run=server", "-f", "-", text=listing)
    assert len(said.splitlines()) == len(built_in)
