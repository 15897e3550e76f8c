"""Indexed selectors match like plain ones, with fewer lookups."""

import random

import pytest

from holdfast.api import fields, labels
from holdfast.api.indexed_selectors import IndexedFieldSelector, IndexedLabelSelector

FORMS = ("{k}", "!{k}", "{k}={v}", "{k}=={v}", "{k}!={v}", "{k} in ({v},{w})",
         "{k} notin ({v},{w})", "{k}>{n}", "{k}<{n}")  # fmt: skip


class Counting(dict):
    """Labels that count lookups."""

    asked = 0

    def get(self, *args):
        self.asked += 1
        return super().get(*args)


@pytest.mark.parametrize("seed", range(5))
def test_indexed_label_selectors_match_like_plain_ones(seed):
    rng = random.Random(seed)

    def some():
        return rng.choice("abc"), str(rng.randrange(4))

    for _ in range(400):
        text = ",".join(
            rng.choice(FORMS).format(k=some()[0], v=some()[1], w=some()[1], n=rng.randrange(4))
            for _ in range(rng.randrange(1, 6))
        )
        selector = labels.parse(text)
        for _ in range(10):
            have = dict(some() for _ in range(rng.randrange(4)))
            assert IndexedLabelSelector(selector).matches(have) == selector.matches(have), (
                text,
                have,
            )


def test_an_indexed_selector_of_nothing_matches_nothing():
    assert not IndexedLabelSelector(labels.NOTHING).matches({})
    assert IndexedLabelSelector(labels.EVERYTHING).matches({"a": "b"})


@pytest.mark.parametrize("seed", range(5))
def test_indexed_field_selectors_match_like_plain_ones(seed):
    rng = random.Random(seed)
    for _ in range(400):
        text = ",".join(
            f"{rng.choice('ab')}{rng.choice(('=', '!='))}{rng.randrange(3)}"
            for _ in range(rng.randrange(1, 5))
        )
        selector = fields.parse(text)
        have = {key: str(rng.randrange(3)) for key in "ab"}.__getitem__
        assert IndexedFieldSelector(selector).matches(have) == selector.matches(have), text


@pytest.mark.parametrize("form", ["!k{}", "k{}!=a", "a!=k{}", "a<1{}", "k{} notin (a,b)"])
def test_the_number_of_lookups_does_not_grow_with_the_selector(form):
    selector = IndexedLabelSelector(labels.parse(",".join(form.format(n) for n in range(5000))))
    have = Counting(a="1", b="2")
    assert selector.matches(have)
    assert have.asked < 10
