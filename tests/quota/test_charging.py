"""What each write of ``quota_cases`` is answered, as kube-apiserver v1.36.2 answers it.

tests/real/test_resource_quotas.py sends the same writes to it and compares with the same file.
"""

import pytest

from holdfast.api.decode import convert_object
from holdfast.api.resource_quota import ResourceQuota
from holdfast.state.quota.charging import QuotaRefusal, charge_write
from holdfast.state.quota.evaluators import evaluator_of, is_extended_key, is_tracked, resources_of
from quota.quota_cases import ANSWERS, WRITES


class Lookups:
    """A cluster with the class ``gpu`` for ``example.com/gpu``, and without pods and claims."""

    now = 0.0
    extended_resources = True

    def extended_name_of(self, device_class):
        return "example.com/gpu" if device_class == "gpu" else ""

    def pod(self, namespace, name):
        return None

    def claims_owned_by(self, namespace, uid):
        return ()


def answer(name):
    """Return the message of the refusal, "" without one, and the usage after the write."""
    quota, used, path, obj = WRITES[name]
    group = path.split("/")[2] if path.startswith("/apis/") else ""
    evaluator = evaluator_of(group, path.rpartition("/")[2])
    status = {"hard": quota["spec"]["hard"], "used": used}
    typed = convert_object({**quota, "status": status}, ResourceQuota)
    new = convert_object(obj, evaluator.type)
    result = charge_write([typed], evaluator, new, None, Lookups())
    if isinstance(result, QuotaRefusal):
        return result.message, used
    return "", (result[0].used if result else used)


def test_every_write_has_a_recorded_answer():
    assert ANSWERS.keys() == WRITES.keys()


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_answered_as_by_kubernetes(name):
    message, used = answer(name)
    assert {"message": message, "used": used} == ANSWERS[name]


@pytest.mark.parametrize(
    ("key", "resources"),
    [
        ("cpu", {("", "pods")}),
        ("requests.example.com/gpu", {("", "pods"), ("resource.k8s.io", "resourceclaims")}),
        ("requests.storage", {("", "persistentvolumeclaims")}),
        ("secrets", {("", "secrets")}),
        ("count/jobs.batch", {("batch", "jobs")}),
        ("count/services", {("", "services")}),
        ("example.com/other", set()),
        ("", set()),
    ],
)
def test_the_resources_of_a_key(key, resources):
    assert set(resources_of([key])) == resources
    assert is_tracked(key) == bool(resources)


def test_names_of_kubernetes_are_no_extended_resources():
    assert not is_extended_key("requests.kubernetes.io/batch-cpu")
    assert is_extended_key("requests.deviceclass.resource.kubernetes.io/gpu")
