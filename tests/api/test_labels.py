"""Label selectors beyond the parity vectors: messages and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api import labels
from holdfast.api.meta import LabelSelector, Requirement
from holdfast.runtime.errors import BadRequest

KEYS = st.sampled_from(["a", "b", "example.com/c"])
VALUES = st.sampled_from(["", "x", "y.z", "1", "2"])
REQUIREMENTS = st.one_of(
    st.builds(labels.require, KEYS, st.sampled_from(["in", "notin"]), st.sets(VALUES, min_size=1)),
    st.builds(labels.require, KEYS, st.sampled_from(["exists", "!"])),
    st.builds(lambda k, o, v: labels.require(k, o, [v]), KEYS, st.sampled_from(["=", "!="]),
              VALUES),
    st.builds(lambda k, o, n: labels.require(k, o, [n]), KEYS, st.sampled_from(["gt", "lt"]),
              st.sampled_from(["0", "7"])),
)  # fmt: skip


@given(st.lists(REQUIREMENTS, max_size=4))
def test_writing_and_parsing_is_identity(requirements):
    selector = labels.conjunction(requirements)
    assert labels.parse(str(selector)) == selector


@given(REQUIREMENTS, st.dictionaries(KEYS, VALUES))
def test_opposites_never_agree(requirement, found):
    opposite = {"in": "notin", "notin": "in", "exists": "!", "!": "exists", "=": "!=", "!=": "="}
    if requirement.operator in opposite:
        other = labels.LabelRequirement(
            requirement.key, opposite[requirement.operator], requirement.values
        )
        assert requirement.matches(found) != other.matches(found)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a!b", "unable to parse requirement: found '!', "
                "expected: in, notin, =, ==, !=, gt, lt"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a>x", "unable to parse requirement: values[0]: Invalid value: \"x\": "
                "for 'Gt', 'Lt' operators, the value must be an integer"),
    ],
)  # fmt: skip
def test_an_invalid_label_selector_names_what_was_expected(text, complaint):
    with pytest.raises(BadRequest) as refused:
        labels.parse(text)
    assert str(refused.value) == complaint


def test_operator_names_may_be_values_and_keys():
    assert labels.parse("in in (notin)").matches({"in": "notin"})


def test_an_unknown_operator_in_a_spec_is_named():
    selector = LabelSelector(
        match_expressions=(Requirement(key="a", operator="Gt", values=("1",)),)
    )
    with pytest.raises(BadRequest, match='"Gt" is not a valid label selector operator'):
        labels.from_selector(selector)


def test_absent_matches_nothing_and_empty_matches_everything():
    assert not labels.from_selector(None).matches({})
    assert labels.from_selector(LabelSelector()).everything
    assert labels.from_selector(LabelSelector()).matches({"a": "b"})


def test_keys_returns_the_keys_of_all_requirements():
    assert labels.parse("a=1,!b,c in (x)").keys == {"a", "b", "c"}


def test_many_values_match_like_few():
    values = [f"v{i}" for i in range(0, 200, 2)]
    among, not_among = (labels.require("k", word, values) for word in ("in", "notin"))
    for i in range(200):
        assert among.matches({"k": f"v{i}"}) is (i % 2 == 0)
        assert not_among.matches({"k": f"v{i}"}) is (i % 2 == 1)
    assert not among.matches({"k": "z"})
    assert not_among.matches({})
