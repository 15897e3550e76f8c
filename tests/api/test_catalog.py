"""The table of built-in resources."""

from collections import Counter

from holdfast.api import catalog, scheme
from holdfast.api.resource import Resource


def test_every_resource_is_listed_once_and_found_both_ways():
    for resource in catalog.ALL:
        key = (resource.group, resource.version)
        assert catalog.find(*key, resource.plural) is resource


def test_typed_resources_are_in_the_catalog_and_custom_ones_are_not():
    custom = {scheme.RESERVATIONS, scheme.RESOURCE_POLICIES}
    typed = {value for value in vars(scheme).values() if isinstance(value, Resource)}
    assert typed - custom <= set(catalog.ALL)
    assert custom.isdisjoint(catalog.ALL)


def test_a_short_name_means_one_kind():
    meanings = {(name, r.kind) for r in catalog.ALL for name in r.short_names}
    assert max(Counter(name for name, _ in meanings).values()) == 1


def test_what_is_not_built_in_is_not_found():
    assert catalog.find("", "v1", "reservations") is None
    assert catalog.find("apps", "v1beta1", "deployments") is None
