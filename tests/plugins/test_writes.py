"""The writes of plugins: the Binding."""

from holdfast.scheduling.framework.plugin import Placement, Skip
from holdfast.scheduling.plugins.default_binder import DefaultBinder
from holdfast.testing import a_node, a_pod, typed
from plugins.deciding import a_world


def placed(**annotations):
    world = a_world(a_node("n1"))
    pod_info = world.pod_info(typed(a_pod("web", namespace="shop")))
    return Placement(pod_info, 0, "n1", {}, dict(annotations))


def test_the_binding_has_the_pods_uid_and_the_node():
    (call,) = DefaultBinder({}).bind(placed())
    assert (call.verb, call.path) == ("bind", "/api/v1/namespaces/shop/pods/web/binding")
    assert call.body == {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-pod-shop-web"},
        "target": {"kind": "Node", "name": "n1"},
    }  # fmt: skip


def test_the_binding_has_the_annotations():
    (call,) = DefaultBinder({}).bind(placed(note="x"))
    assert call.body["metadata"]["annotations"] == {"note": "x"}


def test_a_reserve_pod_is_skipped():
    world = a_world(a_node("n1"))
    pod_info = world.pod_info(typed(a_pod("r")), is_reserve_pod=True)
    assert isinstance(DefaultBinder({}).bind(Placement(pod_info, 0, "n1", {})), Skip)
