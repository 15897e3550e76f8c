"""The JSONPath forms CRD columns use."""

import pytest

from holdfast.apiserver.schema.jsonpath import find
from holdfast.errors import BadRequest

OBJ = {
    "a": {"b": [{"t": "x", "v": 1}, {"t": "y", "v": 2}], "c.d/e": "dotted", "n": None},
    "flags": {"on": True},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b[0].v", [1]),
        (".a.b[-1].v", [2]),
        (".a.b[7].v", []),
        (".a.b[*].t", ["x", "y"]),
        (".a.b[0:1].t", ["x"]),
        ('.a.b[?(@.t=="y")].v', [2]),
        (".a.b[?(@.t == 'y')].v", [2]),
        (".a.b[?(@.v > 1)].t", ["y"]),
        (".a.b[?(@.t > 1)].t", []),
        (".a.b[?(@.t!='x')].t", ["y"]),
        (".a.b[?(@.zzz)].t", []),
        (".a.b[?(@.t)].t", ["x", "y"]),
        (r".a.c\.d/e", ["dotted"]),
        (".a['c.d/e']", ["dotted"]),
        (".flags.on", [True]),
        (".a.n", [None]),
        (".missing.deeper", []),
        (".a.b.t", []),
        ("", [OBJ]),
    ],
)
def test_paths_find_what_they_point_at(path, found):
    assert find(path, OBJ) == found


@pytest.mark.parametrize("path", ["a", ".a..b", ".a[", ".a[?(@.x==y)]", "{.a}"])
def test_unreadable_paths_are_named(path):
    with pytest.raises(BadRequest, match="JSONPath"):
        find(path, OBJ)
