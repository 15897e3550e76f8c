"""Objects of classic DRA for the tests of controllers; see ``testing.classic_builders``."""

from __future__ import annotations

from holdfast.api.classic_dra.types import ClassicClaim, classic_resources
from holdfast.api.decode import convert_object
from holdfast.api.devices import pod_consumer
from holdfast.api.meta import owner_reference
from holdfast.testing import a_pod
from holdfast.testing.classic_dra import builders as classic_builders
from holdfast.testing.classic_dra.builders import DRIVER, a_classic_class

CLASSIC = classic_resources()
GPU_CLASS = a_classic_class(DRIVER)


def inline(name="gpu", *, metadata=None, **spec):
    """An entry with a template, whose spec has only these fields and the class."""
    template = {"spec": {"resourceClassName": DRIVER, **spec}, "metadata": metadata or {}}
    return {"name": name, "claim": {"template": template}}


def named(claim, name="gpu"):
    return classic_builders.named(name, claim)


def a_user(name="p", *entries, **pod):
    """A pod with classic entries, by default one with a template."""
    return a_pod(name, claims=entries or (inline(),), **pod)


def a_classic_claim(name="c", *, immediate=False, status=None, **metadata):
    return classic_builders.a_classic_claim(
        name, of_class=DRIVER, immediate=immediate, status=status, metadata=metadata
    )


def typed_claim(raw, **metadata):
    stored = {"uid": f"uid-{raw['metadata']['name']}", "resourceVersion": "1"}
    return convert_object(
        {**raw, "metadata": {**stored, **raw["metadata"], **metadata}}, ClassicClaim
    )


def owner(pod, **more):
    return owner_reference("v1", "Pod", pod, block=False) | more


def allocated(*pods, shared=None, others=()):
    """The status that a driver writes."""
    shared = len(pods) + len(others) > 1 if shared is None else shared
    return {
        "driverName": DRIVER,
        "allocation": {"resourceHandle": "h", "sharedResource": shared},
        "reservedFor": [*map(pod_consumer, pods), *others],
    }
