"""``holdfast explain`` asks no extender, and says which it did not ask."""

from cli.asking import ask
from holdfast.cli.verdict import as_text
from holdfast.testing import a_node, a_pod

URL = "http://extender.example/v1"
GPU = {"example.com/gpu": "1"}


def config(**extender):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": URL, **extender}],
    }  # fmt: skip


def test_an_extender_with_a_say_is_named():
    answer = ask(a_node("n"), a_pod("p"), pod="p", config=config(filterVerb="filter"))
    assert (answer["best"], answer["extendersNotAsked"]) == (["n"], [URL])
    assert f"the extender at {URL} was not asked" in as_text(answer)


def test_one_without_a_say_about_this_pod_is_not():
    managed = config(filterVerb="filter", managedResources=[{"name": "example.com/gpu"}])
    assert "extendersNotAsked" not in ask(a_node("n"), a_pod("p"), pod="p", config=managed)
    binder = config(bindVerb="bind")
    assert "extendersNotAsked" not in ask(a_node("n"), a_pod("p"), pod="p", config=binder)


def test_what_an_extender_counts_the_scheduler_does_not():
    resource = {"name": "example.com/gpu", "ignoredByScheduler": True}
    managed = config(filterVerb="filter", managedResources=[resource])
    pod = a_pod("p", requests=GPU, limits=GPU)
    assert ask(a_node("n"), pod, pod="p", config=managed)["best"] == ["n"]
    assert ask(a_node("n"), pod, pod="p")["best"] == []
