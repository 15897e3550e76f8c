"""Binding conditions of DynamicResources, as values; the stories are in tests/stories."""

from holdfast.scheduling.plugins.dynamic_resources.binding_conditions import is_unavailable
from holdfast.testing import a_claim, typed


def test_a_claim_whose_time_of_allocation_cannot_be_read_does_not_time_out():
    result = {"device": "gpu-0", "bindingConditions": ["Attached"]}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": "2020-01-01T00:00:00Z"}
    claim = a_claim("c") | {"status": {"allocation": allocation}}
    assert is_unavailable(typed(claim), 1_900_000_000.0, 600.0)
    allocation["allocationTimestamp"] = "yesterday"
    assert not is_unavailable(typed(claim), 1_900_000_000.0, 600.0)
