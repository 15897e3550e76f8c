"""Checks of all descriptors of the built-in kinds."""

from collections import Counter

from holdfast.api import scheme
from holdfast.api.resource import Resource
from holdfast.api.validation import list_limits
from holdfast.api.validation.counting import tree_of
from holdfast.server.kinds import BUILT_IN
from holdfast.server.kinds.custom_resources import KNOWN_CUSTOM_RESOURCES
from holdfast.server.schema.fields import type_of
from holdfast.server.store.indexing import index_object
from holdfast.server.store.objects import ObjectKey
from holdfast.server.verbs.subresources import SHARED

RESOURCES = [descriptor.resource for descriptor in BUILT_IN]


def test_every_version_of_a_kind_is_described_once():
    assert len(set(RESOURCES)) == len(RESOURCES)


def test_typed_resources_are_built_in_and_custom_ones_are_not():
    custom = {descriptor.resource for descriptor in KNOWN_CUSTOM_RESOURCES.values()}
    typed = {value for value in vars(scheme).values() if isinstance(value, Resource)}
    assert custom == {
        scheme.RESERVATIONS, scheme.RESOURCE_POLICIES, scheme.NODE_RESOURCE_TOPOLOGIES,
        scheme.SHARED_DEVICES, scheme.POD_MIGRATION_JOBS,
    }  # fmt: skip
    assert typed - custom <= set(RESOURCES)
    assert custom.isdisjoint(RESOURCES)


def test_a_short_name_belongs_to_one_kind():
    meanings = {(name, r.kind) for r in RESOURCES for name in r.short_names}
    assert max(Counter(name for name, _ in meanings).values()) == 1


def test_fields_marked_as_indexed_are_indexed_by_the_store():
    sample = b'{"metadata":{},"spec":{"nodeName":"n"},"involvedObject":{"name":"p"}}'
    for descriptor in BUILT_IN:
        marked = {name for name, field in descriptor.selectable_fields.items() if field.indexed}
        assert marked == set(
            index_object(ObjectKey(*descriptor.group_resource, "", "x"), sample).fields
        ), descriptor.group_resource


def test_every_subresource_of_a_kind_is_described_and_no_other():
    for descriptor in BUILT_IN:
        named, described = set(descriptor.resource.subresources), set(descriptor.subresources)
        assert described <= named <= described | set(SHARED), descriptor.group_resource
        for part in descriptor.subresources.values():
            assert bool(part.handlers) != bool(part.unimplemented), descriptor.group_resource
            assert set(part.handlers) <= set(part.verbs), descriptor.group_resource


def test_every_kind_that_is_stored_has_a_published_schema():
    stored = [s for s in BUILT_IN if s.handler is None and s.structural_schema is None]
    assert [s.group_resource for s in stored if type_of(s.resource) is None] == []


LIMITS = {
    ("", "nodes"): list_limits.NODE,
    ("", "persistentvolumes"): list_limits.PERSISTENT_VOLUME,
    ("", "pods"): list_limits.POD,
    ("", "podtemplates"): list_limits.POD_TEMPLATE,
    ("", "replicationcontrollers"): list_limits.REPLICATION_CONTROLLER,
    ("", "resourcequotas"): list_limits.RESOURCE_QUOTA,
    ("", "services"): list_limits.SERVICE,
    ("apps", "daemonsets"): list_limits.WORKLOAD,
    ("apps", "deployments"): list_limits.WORKLOAD,
    ("apps", "replicasets"): list_limits.WORKLOAD,
    ("apps", "statefulsets"): list_limits.WORKLOAD,
    ("batch", "cronjobs"): list_limits.CRON_JOB,
    ("batch", "jobs"): list_limits.WORKLOAD,
    ("discovery.k8s.io", "endpointslices"): list_limits.ENDPOINT_SLICE,
    ("policy", "poddisruptionbudgets"): list_limits.DISRUPTION_BUDGET,
    ("resource.k8s.io", "resourceclaims"): list_limits.RESOURCE_CLAIM,
    ("resource.k8s.io", "resourceclaimtemplates"): list_limits.RESOURCE_CLAIM_TEMPLATE,
    ("resource.k8s.io", "resourceslices"): list_limits.RESOURCE_SLICE,
    ("scheduling.koordinator.sh", "reservations"): list_limits.RESERVATION,
    ("scheduling.sigs.x-k8s.io", "resourcepolicies"): list_limits.RESOURCE_POLICY,
    ("storage.k8s.io", "csinodes"): list_limits.CSI_NODE,
}


def test_the_lists_of_each_kind_are_limited():
    for descriptor in (*BUILT_IN, *KNOWN_CUSTOM_RESOURCES.values()):
        wanted = tree_of(LIMITS.get(descriptor.group_resource, list_limits.METADATA))
        assert descriptor.list_limits == wanted, descriptor.group_resource
