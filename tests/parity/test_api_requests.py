"""Requests and limits of pods."""

from holdfast.api import requests
from holdfast.api.decode import convert_object
from holdfast.api.pod import Pod
from holdfast.api.requests import PodResourcesOptions, nanos
from holdfast.api.resource_names import is_pod_level
from parity.harness import parity

FILE = "pod_requests.jsonl"


def reading(options):
    """Translate upstream's options; options without a counterpart must be off."""
    assert not options["skipContainerLevelResources"]
    assert not options["useDRANodeAllocatableResourceClaimStatus"]
    return PodResourcesOptions(
        status=options["useStatusResources"],
        pod_level=not options["skipPodLevelResources"],
        overhead=not options["excludeOverhead"],
        missing=exact(options["nonMissingContainerRequests"]),
    )


def exact(amounts):
    return {name: nanos(text) for name, text in (amounts or {}).items()}


@parity(
    FILE,
    "TestPodLevelResourceRequests",
    "TestPodRequestsAndLimits",
    "TestPodRequestsAndLimitsWithoutOverhead",
    "TestPodResourceLimits",
    "TestPodResourceRequests",
    "TestPodResourceRequestsWithDRANodeAllocatableClaims",
)
def test_requests_and_limits_of_a_pod(record):
    pod, options = convert_object(record.input["pod"], Pod), reading(record.input["options"])
    wanted = {name: exact(amounts) for name, amounts in record.expected.items()}
    got = {
        "expectedRequests": requests.request_nanos(pod, options),
        "expectedLimits": requests.limit_nanos(pod, options),
    }
    assert {name: got[name] for name in wanted} == wanted
    assert wanted


@parity(FILE, "TestAggregateContainerRequestsAndLimits")
def test_requests_and_limits_of_containers(record):
    pod, options = convert_object(record.input["pod"], Pod), reading(record.input["options"])
    got = requests.container_request_nanos(pod, options)
    assert got == exact(record.expected["expectedRequests"])
    got = requests.container_limit_nanos(pod, options)
    assert got == exact(record.expected["expectedLimits"])


@parity(FILE, "TestPodInfoCalculateResources")
def test_what_the_scheduler_counts(record):
    given = record.input
    spec = {name: given[name] for name in ("containers", "initContainers", "overhead")}
    pod = convert_object({"spec": {**spec, "resources": given["podResources"]}}, Pod)
    got = requests.pod_request(
        pod, PodResourcesOptions(pod_level=given["podLevelResourcesEnabled"])
    )
    wanted = record.expected["expectedResource"]
    amounts = dict(got.amounts)
    assert {
        "milliCPU": amounts.pop("cpu", 0),
        "memory": amounts.pop("memory", 0),
        "ephemeralStorage": amounts.pop("ephemeral-storage", 0),
        "allowedPodNumber": 0,
        "scalarResources": amounts or None,
    } == wanted["resource"]
    assert (got.nonzero_millicores, got.nonzero_bytes) == (wanted["non0CPU"], wanted["non0Mem"])


@parity(FILE, "TestIsPodLevelResourcesSet")
def test_pod_level_resources_are_set(record):
    # Upstream checks requests and limits together, Holdfast only requests.
    own = record.input["podResources"] or {}
    each = [{"spec": {"resources": {"requests": own.get(n)}}} for n in ("requests", "limits")]
    got = any(requests.has_pod_level_requests(convert_object(pod, Pod)) for pod in each)
    assert got == record.expected["expected"]


@parity(FILE, "TestIsSupportedPodLevelResource")
def test_pod_level_names(record):
    assert is_pod_level(record.input["resource"]) == record.expected["expected"]
