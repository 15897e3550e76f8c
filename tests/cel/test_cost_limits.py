"""The cost of an expression is bounded before it is evaluated."""

import pytest

from holdfast.api.cel import DeviceSelectors, EvaluationError, devices
from holdfast.api.cel.cost import cost_over_values
from holdfast.api.cel.errors import COST_EXCEEDED, BudgetExceeded, CompileError, CostExceeded
from holdfast.api.cel.rules import CALL_LIMIT, CostBudget, RuleInput, RuleScope
from holdfast.api.decode import convert_object
from holdfast.api.devices import Device

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def doubled(levels, start="'0123456789'", use="{}.size() > 0"):
    """Return nested ``cel.bind`` calls, each value twice as long as the outer one."""
    expression = use.format(f"v{levels}")
    for level in range(levels, 0, -1):
        expression = f"cel.bind(v{level}, v{level - 1} + v{level - 1}, {expression})"
    return f"cel.bind(v0, {start}, {expression})"


@pytest.fixture
def gpu():
    device = {
        "name": "gpu-0",
        "attributes": {f"a{i}": {"string": "x" * 64} for i in range(31)},
        "capacity": {"memory": {"value": "40Gi"}},
    }
    return DeviceSelectors().selectable_device("gpu.example.com", convert_object(device, Device))


@pytest.mark.parametrize("expression", [
    doubled(24),
    doubled(27, start='device.attributes["gpu.example.com"].a0'),
    doubled(24, start="[1]"),
    doubled(24, start="{'a': 'b'}.map(k, k)"),
    doubled(14, use=TEN + ".map(x, {0} + {0}).size() > 0"),
    "'aaaaaaaaaa'" + ".replace('a', 'aaaaaaaaaa')" * 7 + ".size() > 0",
    "'%s'.format(['ab'])" + ".replace('', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaa')" * 5 + ".size() > 0",
    f"{TEN}.all(x, {TEN}.all(y, {TEN}.all(z, {TEN}.map(w, x + y + z + w).sum() > 0)))",
    f"{TEN}.all(x, {TEN}.all(y, 'a'.matches('(((a{{0,30}}){{0,30}}))')))",
    f"{TEN}.all(x, {TEN}.all(y, {TEN}.all(z, {TEN}.all(w, quantity('1').isInteger()))))",
    f"{TEN}.map(x, {TEN}.map(y, {TEN}.map(z, {TEN}.map(w, {TEN})))).size() > 0",
    "'(x?){{500}}x{{500}}y'.format([]) == '' || " + doubled(12, use="{}.matches('(x?){{500}}y')"),
])  # fmt: skip
def test_a_selector_that_may_cost_too_much_is_not_evaluated(gpu, expression):
    selector = DeviceSelectors().compile(expression)
    with pytest.raises(EvaluationError) as failure:
        selector.matches(gpu)
    assert failure.value.message == COST_EXCEEDED


@pytest.mark.parametrize("expression", [
    doubled(8),
    "device.attributes.all(d, device.attributes[d].exists(i, device.attributes[d][i] != ''))",
    'device.attributes["gpu.example.com"].a0.matches("^[a-z][a-z0-9]{0,63}$")',
    'device.attributes["gpu.example.com"].all(a, a.matches("^[a-z0-9]+$"))',
    'device.attributes["gpu.example.com"].map(a, a.replace("a", "bb")).join(",").size() > 0',
    "&& ".join(
        f'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("{i}Gi"))'
        for i in range(20)
    ),
    f"{TEN}.all(x, {TEN}.exists_one(y, x == y)) && {TEN}.map(x, x * 2).sum() == 110",
])  # fmt: skip
def test_an_ordinary_selector_is_evaluated(gpu, expression):
    assert DeviceSelectors().compile(expression).matches(gpu) is True


def test_an_activation_is_not_reused_for_costly_evaluations(gpu):
    cheap = gpu.activation(10)
    assert gpu.activation(10) is cheap
    assert gpu.activation(40_000) is not cheap
    renewed = gpu.activation(10)
    assert renewed is not cheap
    for _ in range(200):
        gpu.activation(10)
    assert gpu.activation(10) is not renewed


def test_a_compile_error_is_cached_and_does_not_grow():
    selectors = DeviceSelectors()
    refusals = set()
    for _ in range(3):
        with pytest.raises(CompileError) as refusal:
            selectors.compile("nothing")
        refusals.add(id(refusal.value))
        depth = len(refusal.traceback)
    assert len(refusals) == 1
    assert depth < 5


@pytest.mark.parametrize("compile_", [RuleScope().compile, DeviceSelectors().compile])
@pytest.mark.parametrize(("expression", "words"), [
    ("[" + "[]," * 33_000 + "[]].size() > 0", "must be at most 10240 bytes long"),
    ("[" + "[]," * 1000 + "[]].size() > 0", "must have at most 256 empty lists and maps"),
    ("[" + "{ }," * 1000 + "[]].size() > 0", "must have at most 256 empty lists and maps"),
])  # fmt: skip
def test_expressions_that_take_long_to_compile_are_rejected(compile_, expression, words):
    with pytest.raises(CompileError, match=words):
        compile_(expression)


def test_deep_expressions_are_rejected_or_bounded(gpu):
    nested = "true"
    for _ in range(40):
        nested = f"{TEN}.all(x, {nested})"
    for expression in (nested, "(" * 5000 + "true" + ")" * 5000, "!" * 10_000 + "true"):
        try:
            DeviceSelectors().compile(expression).matches(gpu)
        except (CompileError, EvaluationError):
            continue


def deep(unit, times, middle="true", end=""):
    return unit * times + middle + end * times


HOSTILE = {
    "brackets": deep("(", 5000, end=")"), "lists": deep("[", 5000, "", "]"),
    "negations": deep("!", 10_000), "signs": deep("-", 5000, "1 > 0"),
    "sum": "+".join("1" * 2000) + " > 0", "fields": "device.driver" + ".a" * 4000,
    "indices": "device.attributes" + "['a']" * 2000, "choices": deep("true ? true : ", 600),
    "digits": "9" * 10_000 + " > 1", "exponent": f"1e{'9' * 9000} > 1.0",
    "hexadecimal": f"0x{'f' * 9000} > 1", "calls": deep("quantity(", 900, "'1'", ")") + " == 1",
    "bindings": deep("cel.bind(v, 1, ", 400, end=")"),
    "loops in loops": deep("[1].all(x, ", 30, end=")"), "escapes": "'" + "\\\\" * 2000 + "' == ''",
    "optional values": "optional.of(1)" + ".or(optional.of(1))" * 400 + ".hasValue()",
    "nested repeats": "'a'.matches('((a{0,100}){0,100}){0,100}')",
    "backtracking": f"'{'a' * 40}!'.matches('^(a+)+$')",
    "long range": "lists.range(1000000000) == []",
    "half a character": "'\ud800' == ''", "zero": "'\0' == ''", "quoted": f"device.`{'a' * 1000}`",
    "integer": f"int('{'9' * 9000}') > 1", "duration": f"duration('{'9' * 5000}h') == null",
    "time": "timestamp('9999999999-01-01T00:00:00Z') == null", "comment": "true //" + "x" * 9000,
    "format": f"'{'%s' * 500}'.format([{','.join('1' * 500)}]) == ''",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_expression_is_an_error_or_a_value(gpu, name):
    selectors = DeviceSelectors()
    for evaluate in (
        lambda text: selectors.compile(text).is_too_complex or selectors.compile(text).matches(gpu),
        lambda text: RuleScope().compile(text).value(RuleInput("x")),
    ):
        try:
            assert evaluate(HOSTILE[name]) in (True, False)
        except (CompileError, EvaluationError) as refusal:
            assert len(refusal.message) < 100_000


@pytest.mark.parametrize(("pattern", "answer"), [("^A+$", True), ("[a-z]{900}", False)])
def test_a_pattern_from_a_value_is_matched(pattern, answer):
    rule = RuleScope().compile(
        "self.text.matches(self.pattern) == (self.text.find(self.pattern) != '')"
    )
    assert rule.value(RuleInput({"text": "AAA", "pattern": pattern})) is True
    matches = RuleScope().compile("self.text.matches(self.pattern)")
    assert matches.value(RuleInput({"text": "AAA", "pattern": pattern})) is answer


@pytest.mark.parametrize("pattern", ["(a{100}){100}", "(", r"[\pL\pN]{50}"])
def test_a_huge_pattern_from_a_value_is_an_error(pattern):
    rule = RuleScope().compile("self.text.matches(self.pattern)")
    with pytest.raises(EvaluationError, match="Illegal regex"):
        rule.value(RuleInput({"text": "AAA", "pattern": pattern}))


def test_compiled_selectors_are_forgotten_when_they_are_many_or_long(monkeypatch):
    monkeypatch.setattr(devices, "_CACHE_SIZE", 32 * 1024)
    selectors = DeviceSelectors()
    for i in range(600):
        selectors.compile(f"{i} == {i}")
    assert 400 < len(selectors._known) < 512
    for i in range(10):
        selectors.compile(f"{i} == {i} //{'x' * 10_000}")
    assert len(selectors._known) == 3
    assert selectors._known.size < 32 * 1024


def test_rules_have_no_bind_as_upstream():
    with pytest.raises(CompileError, match="undeclared reference"):
        RuleScope().compile("cel.bind(a, self, a == a)")


@pytest.mark.parametrize(("rule", "value"), [
    ("self.map(x, x).size() > 0", list(range(5000))),
    ("self.filter(x, x >= 0).size() > 0", list(range(5000))),
    ("self.all(x, self.sum() > 0)", list(range(3000))),
    ("self.all(x, self.isSorted())", list(range(3000))),
    ("self.all(x, sets.contains(self, self))", list(range(1000))),
    ("self.all(x, !(-1 in self))", list(range(5000))),
    ("self.all(x, self == self)", list(range(3000))),
    ("self.contains(self.substring(1) + 'b')", "a" * 1_000_000),
    ("self.replace('a', self).size() > 0", "a" * 100_000),
    ("self.split('').map(x, self).join().size() > 0", "a" * 5000),
    ("self.matches('(x?){500}x{500}y')", "x" * 100_000),
    ("self.all(x, x.matches('((a{0,30}){0,30})'))", ["a"] * 1000),
    ("[self, self].map(x, x).map(x, x.replace('a', 'aaaaaaaaaaa'))[0].replace('a', self) == ''",
     "a" * 10_000),
])  # fmt: skip
def test_a_rule_that_may_cost_too_much_is_not_evaluated(rule, value):
    with pytest.raises(CostExceeded):
        RuleScope().compile(rule).value(RuleInput(value))


def test_the_cost_depends_on_the_actual_values():
    rule = RuleScope().compile("self.names.all(x, self.names.exists_one(y, y.name == x.name))")
    few = {"names": [{"name": f"n{i}"} for i in range(60)], "text": "x" * 1_000_000}
    assert rule.value(RuleInput(few)) is True
    many = {"names": [{"name": f"n{i}"} for i in range(5000)]}
    with pytest.raises(CostExceeded):
        rule.value(RuleInput(many))


@pytest.mark.parametrize(("rule", "value"), [
    ("self.all(x, x.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))", ["abc-def"] * 1000),
    ("self.split('.').all(x, x.size() <= 63 && x.matches('^[a-z0-9]+$'))", ".".join(["abc"] * 63)),
    ("self.all(k, k in self && self[k] != '')", {f"k{i}": "v" for i in range(5000)}),
    ("self.map(x, x.name).isSorted()", [{"name": f"n{i:04}"} for i in range(500)]),
    ("self.filter(x, x.on).size() == 0", [{"on": False, "text": "x" * 1000}] * 1000),
    ("self == self && self.?no.orValue({}).size() == 0", {str(i): [i] * 9 for i in range(5000)}),
    ("sets.contains(self, self)", list(range(20_000))),
    ("self.sum() > 0 && self.isSorted() && self.max() > self.min()", list(range(20_000))),
    ("self.size() > 0 && self.startsWith('x') && !self.contains('y')", "x" * 1_000_000),
])  # fmt: skip
def test_an_ordinary_rule_over_a_large_value_is_evaluated(rule, value):
    assert RuleScope().compile(rule).value(RuleInput(value)) is True


def test_all_rules_over_an_object_share_a_budget():
    rule = RuleScope().compile("self.map(x, x).size() > 0")
    given = RuleInput(list(range(1000)), budget=CostBudget(3 * CALL_LIMIT // 2))
    assert rule.value(given) is True
    with pytest.raises(BudgetExceeded):
        for _ in range(3):
            rule.value(given)


def test_the_bound_of_a_literal_loop_is_close_to_its_steps():
    """A bound is at least one step for each node and round, and not much more."""
    tree = RuleScope().compile("[1, 2, 3].all(x, x > 0)").tree
    cost = cost_over_values(tree, {}, CALL_LIMIT)
    assert 9 < cost < 200


@pytest.mark.parametrize(("expression", "answer"), [
    ("sets.contains([dyn(1), dyn(2), dyn('a'), dyn([1])], [dyn([1]), dyn('a')])", True),
    ("sets.contains([dyn(1)], [dyn(true)])", False),
    ("sets.equivalent([dyn(1), dyn(1), dyn(2.0)], [dyn(2), dyn(1)])", True),
    ("sets.equivalent([{'a': [dyn(1)]}], [{'a': [dyn(1.0)]}])", True),
    ("sets.intersects([dyn(b'a')], [dyn(b'a'), dyn('a')])", True),
    ("sets.intersects([dyn(b'a')], [dyn('a')])", False),
    ("sets.intersects([], [])", False),
])  # fmt: skip
def test_sets_compare_as_cel_does(expression, answer):
    assert RuleScope().compile(expression).value(RuleInput(None)) is answer
