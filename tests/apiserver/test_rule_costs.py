"""CEL rules of CRDs that exceed the cost limits."""

import pytest

from apiserver.sample_crd import CRDS, THINGS, definition

COST = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run"


def rules(*texts, **more):
    return {"x-kubernetes-validations": [{"rule": text, **more} for text in texts]}


def thing(**fields):
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, **fields}


NUMBERS = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize("rule", [
    "self.all(x, self.exists_one(y, x == y))",
    "self.map(x, x).size() > 0",
    "self.all(x, self.sum() > 0)",
])  # fmt: skip
async def test_the_cost_of_a_rule_depends_on_the_object(api, rule):
    await api.create(CRDS, definition({"numbers": {**NUMBERS, **rules(rule)}}))
    refused = await api.call("POST", THINGS, thing(numbers=list(range(5000))))
    assert refused.status == 422
    words = f'numbers: Invalid value: "array": {COST} due to call cost exceeds limit for rule: '
    assert words + rule in refused.json["message"]
    assert (await api.call("POST", THINGS, thing(numbers=list(range(60))))).status == 201


async def test_rules_that_multiply_a_string_are_not_evaluated(api):
    rule = "self" + ".replace('', '0123456789')" * 9 + ".size() > 0"
    schema = {"type": "string", **rules(rule, "false", message="must hold")}
    await api.create(CRDS, definition({"text": schema}))
    refused = await api.call("POST", THINGS, thing(text="abc"))
    assert refused.status == 422
    words = f'text: Invalid value: "string": {COST} due to call cost exceeds limit for rule: must'
    assert words in refused.json["message"]
    assert len(refused.json["details"]["causes"]) == 1


async def test_all_rules_over_an_object_have_one_budget(api):
    items = {"type": "integer"}
    rule = "self.map(x, x).size() > 0"
    lists = {f"list{i}": {"type": "array", "items": items, **rules(rule)} for i in range(9)}
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
        **rules("self.replace('', '012345678901234567890123456789').size() > 0"),
    }
    await api.create(CRDS, definition({"texts": {"type": "array", "items": item}}))
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


async def test_a_message_expression_over_the_cost_limit_stops_validation(api):
    expression = "self" + ".replace('', '0123456789')" * 9
    schema = {"type": "string", **rules("false", messageExpression=expression)}
    await api.create(CRDS, definition({"text": schema}))
    refused = await api.call("POST", THINGS, thing(text="abc"))
    assert refused.status == 422
    words = "due to call cost exceeds limit for messageExpression: "
    assert words in refused.json["message"]
