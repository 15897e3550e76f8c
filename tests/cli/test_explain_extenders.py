"""``holdfast explain`` calls no extender and names those it did not call."""

from cli.explain_requests import ask
from holdfast.cli.explanation_text import format_explanation
from holdfast.testing import a_node, a_pod

URL = "http://extender.example/v1"
GPU = {"example.com/gpu": "1"}


def config(**extender):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": URL, **extender}],
    }  # fmt: skip


def test_an_extender_that_would_be_called_is_named():
    answer = ask(a_node("n"), a_pod("p"), pod="p", config=config(filterVerb="filter"))
    assert (answer["best"], answer["extendersNotAsked"]) == (["n"], [URL])
    assert f"the extender at {URL} was not called" in format_explanation(answer)


def test_an_extender_that_is_not_interested_in_the_pod_is_not_named():
    managed = config(filterVerb="filter", managedResources=[{"name": "example.com/gpu"}])
    assert "extendersNotAsked" not in ask(a_node("n"), a_pod("p"), pod="p", config=managed)
    binder = config(bindVerb="bind")
    assert "extendersNotAsked" not in ask(a_node("n"), a_pod("p"), pod="p", config=binder)


def test_resources_that_an_extender_manages_are_not_counted():
    resource = {"name": "example.com/gpu", "ignoredByScheduler": True}
    managed = config(filterVerb="filter", managedResources=[resource])
    pod = a_pod("p", requests=GPU, limits=GPU)
    assert ask(a_node("n"), pod, pod="p", config=managed)["best"] == ["n"]
    assert ask(a_node("n"), pod, pod="p")["best"] == []
