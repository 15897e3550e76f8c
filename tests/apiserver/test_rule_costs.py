"""CEL rules of CRDs that exceed the cost limits."""

import pytest

from apiserver.sample_crd import CRDS, THINGS, definition
from holdfast.server.schema.structural import rule_validation

COST = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run"


def rules(*texts, **more):
    return {"x-kubernetes-validations": [{"rule": text, **more} for text in texts]}


def thing(**fields):
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, **fields}


def numbers(most):
    return {"type": "array", "items": {"type": "integer"}, "maxItems": most}


@pytest.mark.parametrize(("rule", "most"), [
    ("self.all(x, self.exists_one(y, x == y))", 1000),
    ("self.map(x, x).size() > 0", 1600),
    ("self.all(x, self.sum() > 0)", 1600),
])  # fmt: skip
async def test_the_cost_of_a_rule_depends_on_the_object(api, rule, most):
    await api.create(CRDS, definition({"numbers": {**numbers(most), **rules(rule)}}))
    refused = await api.call("POST", THINGS, thing(numbers=list(range(most))))
    assert refused.status == 422
    words = f'numbers: Invalid value: "array": {COST} due to call cost exceeds limit for rule: '
    assert words + rule in refused.json["message"]
    assert (await api.call("POST", THINGS, thing(numbers=list(range(60))))).status == 201


async def test_a_rule_that_may_cost_too_much_is_refused_with_its_crd(api):
    rule = "self.all(x, self.exists_one(y, x == y))"
    unlimited = {"type": "array", "items": {"type": "integer"}}
    refused = await api.call("POST", CRDS, definition({"n": {**unlimited, **rules(rule)}}))
    assert refused.status == 422
    words = "x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by "
    assert words + "factor of more than 100x" in refused.json["message"]


async def test_rules_that_multiply_a_string_are_refused(api):
    rule = "self" + ".replace('', '0123456789')" * 9 + ".size() > 0"
    schema = {"type": "string", "maxLength": 10, **rules(rule)}
    refused = await api.call("POST", CRDS, definition({"text": schema}))
    assert refused.status == 422
    assert "estimated rule cost exceeds budget" in refused.json["message"]


async def test_all_rules_over_an_object_have_one_budget(api):
    items = {"type": "integer"}
    rule = "self.map(x, x).size() > 0"
    limited = {"type": "array", "items": items, "maxItems": 1000}
    lists = {f"list{i}": {**limited, **rules(rule)} for i in range(9)}
    await api.create(CRDS, definition(lists))
    refused = await api.call("POST", THINGS, thing(**{name: [1] * 1000 for name in lists}))
    assert refused.status == 422
    words = (
        "validation failed due to running out of cost budget, no further validation rules will "
        "be run"
    )
    assert words in refused.json["message"]
    assert (await api.call("POST", THINGS, thing(**{n: [1] * 100 for n in lists}))).status == 201


async def test_a_rule_evaluated_for_every_item_has_the_same_budget(api):
    item = {
        "type": "string",
        "maxLength": 50_000,
        **rules("self.replace('', '012345678901234567890123456789').size() > 0"),
    }
    await api.create(CRDS, definition({"texts": {"type": "array", "items": item, "maxItems": 25}}))
    refused = await api.call("POST", THINGS, thing(texts=["x" * 50_000] * 25))
    assert refused.status == 422
    assert "running out of cost budget" in refused.json["message"]


@pytest.mark.parametrize("expression", [
    "'a'.replace('', '%s')" % ("x" * 5200),
    "'one\\ntwo'",
])  # fmt: skip
async def test_a_message_that_cannot_be_shown_is_replaced(api, expression):
    schema = {"type": "string", **rules("false", messageExpression=expression, message="wrong")}
    await api.create(CRDS, definition({"text": schema}))
    refused = await api.call("POST", THINGS, thing(text="abc"))
    assert 'text: Invalid value: "abc": wrong' in refused.json["message"]


async def test_a_message_expression_that_may_cost_too_much_is_refused(api):
    expression = "self" + ".replace('', '0123456789')" * 9
    schema = {"type": "string", "maxLength": 10, **rules("false", messageExpression=expression)}
    refused = await api.call("POST", CRDS, definition({"text": schema}))
    assert refused.status == 422
    assert "estimated messageExpression cost exceeds budget" in refused.json["message"]


async def test_a_stored_rule_is_not_checked_again_while_its_schema_is_unchanged(api, monkeypatch):
    rule = "self.all(x, self.exists_one(y, x == y))"
    crd = definition({"n": {**numbers(1000), **rules(rule)}})
    await api.create(CRDS, crd)
    monkeypatch.setattr(rule_validation, "_RULE_LIMIT", 1)
    path = f"{CRDS}/things.example.com"
    labels = {"metadata": {"labels": {"a": "b"}}}
    merge = {"content-type": "application/merge-patch+json"}
    assert (await api.call("PATCH", path, labels, headers=merge)).status == 200
    assert (await api.call("POST", THINGS, thing(n=[1, 2]))).status == 201
    changed = definition({"n": {**numbers(999), **rules(rule)}})["spec"]
    refused = await api.call("PATCH", path, {"spec": changed}, headers=merge)
    assert refused.status == 422
    assert "estimated rule cost exceeds budget" in refused.json["message"]
