"""Which pods own a reservation, and which of its own reservations a pod may use."""

from types import SimpleNamespace

import pytest

from holdfast.runtime.errors import BadRequest
from holdfast.scheduling.framework.world import World
from holdfast.state.reservations.matching import allows_pre_allocation
from holdfast.state.reservations.owner_rules import compile_owners
from holdfast.state.reservations.reservation_annotations import affinity_of
from holdfast.testing import a_node, a_pod, a_reservation, typed

PREFIX = "scheduling.koordinator.sh"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web-1",
    "uid": "u",
    "controller": True,
}
DYING = {"deletion_timestamp": "2030-01-01T00:00:00Z"}
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
TOLERATION = '{"key":"k","operator":"Equal","value":"v","effect":"NoSchedule"}'
CLOSED = '{"key":"node.kubernetes.io/unschedulable","operator":"Exists","effect":"NoSchedule"}'


def reservation(name="r", owners=(WEB,), node="n", **more):
    allocatable = {"cpu": more.pop("cpu", "4")}
    status = {"phase": "Available", "nodeName": node, "allocatable": allocatable}
    return typed(a_reservation(name, owners=owners, status=status, **more))


def pod(name="p", labels=None, affinity=None, exact=None, **more):
    notes = {f"{PREFIX}/reservation-affinity": affinity, f"{PREFIX}/exact-match-reservation": exact}
    notes = {key: text for key, text in notes.items() if text is not None}
    found = {"app": "web"} if labels is None else labels
    return typed(a_pod(name, labels=found, annotations=notes, **more))


def matched(asking, *reservations, node=None):
    world = World()
    for obj in (node or typed(a_node("n")), *reservations):
        world.upsert(obj)
    match = world.match(world.pod_info(asking))
    if match is None or match.ignores_reservations:
        return set()
    return {world.reservations.at(int(slot)).reservation.name for slot in match.slots}


@pytest.mark.parametrize(
    ("owner", "asking", "owns"),
    [
        (WEB, pod(), True),
        (WEB, pod(labels={"app": "db"}), False),
        (WEB, pod(namespace="elsewhere"), True),
        ({"labelSelector": {}}, pod(labels={}), True),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
         pod(), True),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
         pod(labels={}), False),
        ({"labelSelector": {"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": ["web"]}]}}, pod(labels={}), True),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [
            "web", "db"]}]}}, pod(), True),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Sideways"}]}},
         pod(), False),
        ({"object": {"name": "p", "namespace": "default"}}, pod(labels={}), True),
        ({"object": {"name": "p", "kind": "Nonsense", "resourceVersion": "7"}}, pod(), True),
        ({"object": {"name": "p", "apiVersion": "v1"}}, pod(), True),
        ({"object": {"name": "p", "apiVersion": "apps/v1"}}, pod(), False),
        ({"object": {"name": "q"}}, pod(), False),
        ({"object": {"namespace": "default"}}, pod(), True),
        ({"object": {"uid": "uid-pod-default-p"}}, pod(), True),
        ({"object": {"uid": "another"}}, pod(), False),
        ({"object": {"namespace": "ns1"}, **WEB}, pod(namespace="ns2"), False),
        ({"object": {"namespace": "ns1"}, **WEB}, pod(namespace="ns1"), True),
        ({"object": {"name": "p"}, **WEB}, pod(labels={}), False),
        ({"controller": {"uid": "u"}}, pod(metadata={"owner_references": [SET]}), True),
        ({"controller": {"name": "web-1"}}, pod(metadata={"owner_references": [SET]}), True),
        ({"controller": {"name": "web-1"}}, pod(), False),
        ({"controller": {"name": "web-1", "kind": "Job"}},
         pod(metadata={"owner_references": [SET]}), False),
        ({"controller": {"name": "web-1", "apiVersion": "apps/v1", "controller": True}},
         pod(metadata={"owner_references": [SET]}), True),
        ({"controller": {"name": "web-1", "controller": False}},
         pod(metadata={"owner_references": [SET]}), False),
        ({"controller": {"uid": "u", "namespace": "ns1"}},
         pod(metadata={"owner_references": [SET]}, namespace="ns2"), False),
        ({"controller": {"uid": "u", "namespace": "ns1"}},
         pod(metadata={"owner_references": [SET]}, namespace="ns1"), True),
    ],
)  # fmt: skip
def test_all_given_parts_of_an_owner_match_and_absent_ones_are_true(owner, asking, owns):
    assert matched(asking, reservation(owners=[owner])) == ({"r"} if owns else set())


def test_owners_are_alternatives():
    owners = [{"object": {"name": "a"}}, {"labelSelector": {"matchLabels": {"app": "x"}}}]
    by_either = reservation(owners=owners)
    assert matched(pod("a", labels={}), by_either) == {"r"}
    assert matched(pod("b", labels={"app": "x"}), by_either) == {"r"}
    assert matched(pod("b", labels={}), by_either) == set()


def test_a_reservation_with_a_malformed_selector_has_no_owners():
    broken = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Sideways"}]}}
    assert matched(pod(), reservation(owners=[broken, WEB])) == set()


def test_a_reservation_on_an_unknown_node_matches_no_pod():
    assert matched(pod(), reservation(node="elsewhere")) == set()


def test_a_name_overrides_taints_selectors_and_unschedulable():
    closed = reservation("r1", taints=[TAINT], unschedulable=True)
    asking = pod(affinity='{"name":"r1","reservationSelector":{"no":"such"}}')
    assert matched(asking, closed, reservation("r2")) == {"r1"}
    assert matched(pod(affinity='{"name":"r1"}', labels={}), closed) == set()


@pytest.mark.parametrize("affinity", [None, "", "{}"])
def test_an_empty_affinity_selects_every_owned_reservation(affinity):
    assert matched(pod(affinity=affinity), reservation("r1"), reservation("r2")) == {"r1", "r2"}


def test_a_malformed_affinity_matches_nothing():
    assert matched(pod(affinity="{"), reservation()) == set()


def test_selectors_match_the_node_labels_overlaid_by_the_reservation():
    node = typed(a_node("n", labels={"zone": "a", "type": "cpu"}))
    gpu = reservation(labels={"type": "gpu"})
    selector = '{"reservationSelector":{"type":"%s","zone":"%s"}}'
    assert matched(pod(affinity=selector % ("gpu", "a")), gpu, node=node) == {"r"}
    assert matched(pod(affinity=selector % ("cpu", "a")), gpu, node=node) == set()
    assert matched(pod(affinity=selector % ("gpu", "b")), gpu, node=node) == set()


def test_required_terms_are_alternatives_and_may_name_the_reservation():
    terms = (
        '{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":['
        '{"matchExpressions":[{"key":"tier","operator":"In","values":["gold"]}]},'
        '{"matchFields":[{"key":"metadata.name","operator":"In","values":["r2"]}]}]}}'
    )
    offered = (reservation("r1", labels={"tier": "gold"}), reservation("r2"), reservation("r3"))
    assert matched(pod(affinity=terms), *offered) == {"r1", "r2"}
    none = '{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[]}}'
    assert matched(pod(affinity=none), *offered) == set()


@pytest.mark.parametrize(
    ("asking", "allowed"),
    [
        (pod(), False),
        (pod(tolerations=[{"key": "k", "operator": "Exists"}]), True),
        (pod(affinity="{}"), False),
        (pod(affinity=f'{{"tolerations":[{TOLERATION}]}}'), True),
    ],
)
def test_taints_are_tolerated_by_the_affinity_or_by_the_pod(asking, allowed):
    assert matched(asking, reservation(taints=[TAINT])) == ({"r"} if allowed else set())


def test_a_taint_with_effect_PreferNoSchedule_excludes_no_pod():
    assert matched(pod(), reservation(taints=[TAINT | {"effect": "PreferNoSchedule"}])) == {"r"}


def test_an_unschedulable_reservation_accepts_only_pods_that_tolerate_it():
    closed = reservation(unschedulable=True)
    assert matched(pod(), closed) == set()
    assert matched(pod(affinity=f'{{"tolerations":[{CLOSED}]}}'), closed) == {"r"}
    # Only the tolerations of the affinity count, not those that every DaemonSet pod has.
    everywhere = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    assert matched(pod(tolerations=everywhere), closed) == set()


@pytest.mark.parametrize("affinity", [None, f'{{"tolerations":[{CLOSED}]}}', '{"name":"r"}'])
def test_a_terminating_reservation_accepts_no_pod(affinity):
    assert matched(pod(affinity=affinity), reservation()) == {"r"}
    assert matched(pod(affinity=affinity), reservation(metadata=DYING)) == set()


@pytest.mark.parametrize(
    ("names", "cpu", "fits"),
    [
        ('["cpu"]', "4", True),
        ('["cpu"]', "3", False),
        ('["memory"]', "4", True),
        ('["memory","cpu"]', "3", False),
        ("[]", "3", True),
    ],
)
def test_an_exact_match_compares_the_named_resources(names, cpu, fits):
    asking = pod(cpu=cpu, exact=f'{{"resourceNames":{names}}}')
    assert matched(asking, reservation(cpu="4")) == ({"r"} if fits else set())


def test_an_exact_match_fails_where_only_one_side_names_the_resource():
    asking = pod(cpu="4", memory="1Gi", exact='{"resourceNames":["memory"]}')
    assert matched(asking, reservation(cpu="4")) == set()


def test_a_pod_that_ignores_reservations_owns_none():
    labels = {"app": "web", f"{PREFIX}/reservation-ignored": "true"}
    assert matched(pod(labels=labels), reservation()) == set()


@pytest.mark.parametrize("part", ["object", "controller"])
def test_pods_of_another_namespace_cannot_be_owners(part):
    (rule,) = compile_owners(reservation(owners=[{part: {"name": "p", "namespace": "a"}}]))
    assert rule.may_own(SimpleNamespace(namespace="a", labels={}))
    assert not rule.may_own(SimpleNamespace(namespace="b", labels={}))


def test_an_error_in_a_reservation_affinity_names_its_field():
    term = '{"matchExpressions":[{"key":"k","operator":"Wrong"}]}'
    required = f'{{"reservationSelectorTerms":[{term}]}}'
    text = f'{{"requiredDuringSchedulingIgnoredDuringExecution":{required}}}'
    with pytest.raises(BadRequest) as failed:
        affinity_of(pod(affinity=text))
    field = "requiredDuringSchedulingIgnoredDuringExecution.reservationSelectorTerms[0].match"
    assert f"reservation-affinity].{field}" in str(failed.value)


@pytest.mark.parametrize(
    ("affinity", "allowed"),
    [
        (None, True),
        ("{}", False),
        (f'{{"tolerations":[{TOLERATION}]}}', True),
        ('{"name":"r"}', True),
        ('{"name":"other"}', False),
    ],
)
def test_a_running_pod_is_pre_allocated_by_a_reservation_whose_taints_it_tolerates(
    affinity, allowed
):
    world, tainted = World(), reservation(taints=[TAINT])
    pod_info = world.pod_info(pod(affinity=affinity))
    names = world.nodes.resources
    assert allows_pre_allocation(pod_info, tainted, {}, {}, names) is allowed
