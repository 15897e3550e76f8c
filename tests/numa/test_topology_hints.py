"""Merging hints of NUMA nodes: the best combination, found without trying each."""

import random
from itertools import product

import pytest

from holdfast.state.numa.policy_names import (
    BEST_EFFORT,
    EXCLUSIVE_REQUIRED,
    RESTRICTED,
    SINGLE_NUMA_NODE,
)
from holdfast.state.numa.topology_hints import Hint, NodeUse, merge_hints, numa_masks


def best_of_all(lists, exclusive, use, everything):
    """Return (not preferred, size, -score, mask) of the best combination, and if it is aligned."""
    found = {}
    for chosen in product(*lists):
        mask = everything
        for hint in chosen:
            mask &= hint.mask
        if not mask:
            continue
        aligned = all(hint.mask == mask for hint in chosen)
        several = mask.bit_count() > 1
        shared = mask & (use.single & ~use.spanning if several else use.spanning)
        preferred = aligned and all(hint.preferred for hint in chosen)
        preferred = preferred and not (exclusive and shared)
        score = sum(hint.score for hint in chosen if hint.mask == mask)
        key = (not preferred, mask.bit_count(), -score, mask)
        found[key] = found.get(key, False) or aligned
    return min(found.items(), default=None)


@pytest.mark.parametrize("policy", [BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE])
def test_the_best_combination_is_found(policy):
    rng = random.Random(policy)
    for _ in range(150):
        nodes = sorted(rng.sample(range(6), rng.randint(1, 3)))
        masks = numa_masks(nodes)
        lists = [
            [Hint(m, rng.random() < 0.5, rng.randint(0, 2)) for m in masks if rng.random() < 0.6]
            or [Hint(masks[-1], True)]
            for _ in range(rng.randint(1, 3))
        ]
        use = NodeUse(rng.getrandbits(6), rng.getrandbits(6))
        exclusive = rng.choice(("", EXCLUSIVE_REQUIRED))
        provided = [{f"r{i}": hints} for i, hints in enumerate(lists)]
        merged = merge_hints(policy, nodes, provided, exclusive, use)
        if policy == SINGLE_NUMA_NODE:
            lists = [
                [h for h in hints if h.preferred and h.mask.bit_count() == 1] for hints in lists
            ]
        best = best_of_all(lists, exclusive, use, masks[-1])
        if policy == BEST_EFFORT:
            (unpreferred, _, score, mask), aligned = best or ((True, 0, 0, masks[-1]), False)
            want = (mask, not unpreferred, -score) if aligned else (masks[-1], False, 0)
            assert merged == (want[0], True, want[1], want[2], ())
        elif best is None or best[0][0]:
            assert not merged.admitted
            assert merged.reasons[0].startswith("Unaligned NUMA Hint cause r0 prefer [")
        else:
            assert merged == (best[0][3], True, True, -best[0][2], ())


def test_a_node_with_a_single_numa_node_is_used_by_its_name():
    merged = merge_hints(SINGLE_NUMA_NODE, [0], [{"cpu": [Hint(1, True)]}])
    assert (merged.mask, merged.admitted) == (1, True)


def test_sets_of_many_numa_nodes_are_bounded():
    masks = numa_masks(list(range(64)))
    assert len(masks) == 4096
    assert masks[:64] == tuple(1 << node for node in range(64))
    assert masks[-1] == (1 << 64) - 1
