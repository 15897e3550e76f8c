"""The order in which namespaces take turns."""

from collections import Counter
from itertools import pairwise


def between(steps, namespace):
    """The steps of others between any two of a namespace."""
    own = [i for i, name in enumerate(steps) if name == namespace]
    return [Counter(steps[a + 1 : b]) for a, b in pairwise(own)]
