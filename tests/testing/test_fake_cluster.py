"""FakeCluster, for plugin authors."""

from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.fake_cluster import FakeCluster


def test_a_pod_is_placed_where_it_fits_and_uses_resources():
    cluster = FakeCluster(a_node("small", cpu="1"), a_node("large", cpu="8"))
    assert cluster.place(a_pod("a", cpu="6")) == "large"
    assert cluster.place(a_pod("b", cpu="6")) == ""
    assert cluster.why(a_pod("c", cpu="6")) == "0/2 nodes are available: 2 Insufficient cpu."


def test_reserved_resources_are_for_their_owner():
    held = a_reservation(
        "r", owner_labels={"app": "web"},
        status={"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "4"}},
    )  # fmt: skip
    cluster = FakeCluster(a_node("n", cpu="4"), held)
    assert cluster.place(a_pod("stranger", cpu="1")) == ""
    assert cluster.place(a_pod("owner", cpu="4", labels={"app": "web"})) == "n"


def test_a_removed_object_frees_its_resources():
    placed = a_pod("a", cpu="4", node="n")
    cluster = FakeCluster(a_node("n", cpu="4"), placed)
    assert cluster.place(a_pod("b", cpu="2")) == ""
    cluster.remove(placed)
    assert cluster.place(a_pod("c", cpu="2")) == "n"
