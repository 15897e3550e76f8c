"""JSONPath as in the columns of CRDs."""

import pytest

from holdfast.runtime.errors import BadRequest
from holdfast.server.schema.jsonpath import find

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
def test_a_path_selects_values(path, found):
    assert find(path, OBJ) == found


@pytest.mark.parametrize("path", ["a", ".a..b", ".a[", ".a[?(@.x==y)]", "{.a}"])
def test_an_invalid_path_is_in_the_error(path):
    with pytest.raises(BadRequest, match="JSONPath"):
        find(path, OBJ)
