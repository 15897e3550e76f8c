"""``format`` and numbers as texts; the expected texts are upstream's."""

import pytest

from holdfast.api.cel.errors import EvaluationError
from holdfast.api.cel.rules import RuleInput, RuleScope


def value(expression):
    return RuleScope().compile(expression).value(RuleInput([1, "a"]))


@pytest.mark.parametrize(("expression", "text"), [
    ("'%s and %d'.format(['a', -5])", "a and -5"),
    ("'%s'.format([[1, 'a', true, 1.5, null, b'x']])", '[1, "a", true, 1.500000, null, b"x"]'),
    ("'%s'.format([{'b': 1, 'a': [1.0]}])", '{"a":[1.000000], "b":1}'),
    ("'%s'.format([[timestamp('2020-01-01T00:00:00Z'), duration('1h')]])",
     '[timestamp("2020-01-01T00:00:00Z"), duration("3600s")]'),
    ("'%.2f %.0f'.format([1234567.891, 2.5])", "1,234,567.89 2"),
    ("'%e'.format([0.00012])", "1.200000×10⁻⁰⁴"),
    ("'%b %x %X %o'.format([5, 255, 'hello', 8])", "101 ff 68656C6C6F 10"),
    ("'%d%%'.format([5])", "5%"), ("'%f'.format(['NaN'])", "NaN"),
    ("'%s'.format(self)", "1"), ("string(1234567.0)", "1.234567e+06"), ("string(0.5)", "0.5"),
    ("string(0.0001)", "0.0001"), ("string(-1.5e-9)", "-1.5e-09"), ("string(-0.0)", "-0"),
])  # fmt: skip
def test_values_become_texts(expression, text):
    assert value(expression) == text


@pytest.mark.parametrize("template", ["'%d%d%d'", "'%q%s'", "'%s%s%'", "'%s%d'"])
def test_a_wrong_clause_is_an_error(template):
    with pytest.raises(EvaluationError):
        value(f"{template}.format(self)")
