"""Field selectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api import fields
from holdfast.runtime.errors import BadRequest

PENDING = {"metadata.name": "p", "spec.nodeName": "", "status.phase": "Pending"}.__getitem__


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("metadata.name=p", True),
        ("metadata.name==p", True),
        ("metadata.name!=p", False),
        ("spec.nodeName=", True),
        ("spec.nodeName!=,metadata.name=p", False),
        ("status.phase!=Succeeded,status.phase!=Failed", True),
        ("metadata.name=p,", True),
    ],
)
def test_all_requirements_must_hold(text, selected):
    assert fields.parse(text).matches(PENDING) == selected


@given(st.text(alphabet="ab\\,=! ", max_size=8))
def test_any_value_survives_escaping(value):
    selector = fields.parse(f"a={fields.escape(value)},b=1")
    assert selector.exact("a") == value
    assert fields.parse(str(selector)) == selector


def test_exact_returns_the_value_that_a_field_must_have():
    selector = fields.parse("metadata.name=x,spec.nodeName!=y")
    assert (selector.exact("metadata.name"), selector.exact("spec.nodeName")) == ("x", None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
        ("a=b\\c", "invalid field selector: invalid escape sequence: \\c"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_an_invalid_field_selector_has_an_error(text, complaint):
    with pytest.raises(BadRequest) as refused:
        fields.parse(text)
    assert str(refused.value) == complaint
