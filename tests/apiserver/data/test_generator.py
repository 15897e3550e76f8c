"""The parsers of tools/generate_api_data.py, with small sources."""

import sys
from pathlib import Path

import pytest

TOOLS = str(Path(__file__).resolve().parents[3] / "tools")


@pytest.fixture
def protos(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    from api_data import protos as module

    yield module
    for name in [n for n in sys.modules if n == "api_data" or n.startswith("api_data.")]:
        del sys.modules[name]


PROTO = """
package k8s.io.api.x.v1;

message Thing {
  // A comment with optional string fake = 9;
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.Time made = 1;

  optional int32 count = 2;

  optional string name = 3;

  map<string, Extra> extras = 4;

  repeated string words = 5;

  optional Inner inner = 6;

  optional int64 plain = 7;
}

message Extra {
  repeated string items = 1;
}

message Inner {
  optional bool on = 1;
}
"""

GO = """
type Thing struct {
\tmetav1.TypeMeta `json:",inline"`
\t// Made is a comment.
\tMade *metav1.Time `json:"made,omitempty" protobuf:"bytes,1,opt,name=made"`
\tCount *int32 `json:"howMany,omitempty" protobuf:"varint,2,opt,name=count"`
\tName string `json:"name" protobuf:"bytes,3,opt,name=name"`
\tExtras map[string]Extra `json:"extras,omitempty" protobuf:"bytes,4,rep,name=extras"`
\tWords []string `json:"words,omitempty" protobuf:"bytes,5,rep,name=words"`
\tInner `json:",inline" protobuf:"bytes,6,opt,name=inner"`
\tPlain int64 `json:"plain,omitempty" protobuf:"varint,7,opt,name=plain"`
}

type Extra []string

type Inner struct {
\tOn bool `json:"on,omitempty" protobuf:"varint,1,opt,name=on"`
}
"""

META = """
package k8s.io.apimachinery.pkg.apis.meta.v1;

message Time {
  optional int64 seconds = 1;
}
"""


def module(root, path, proto, go="", group=None):
    directory = root / path
    directory.mkdir(parents=True)
    (directory / "generated.proto").write_text(proto)
    (directory / "types.go").write_text(go)
    if group is not None:
        (directory / "register.go").write_text(f'const GroupName = "{group}"\n')


def test_numbers_come_from_proto_and_the_rest_from_go(tmp_path, protos):
    module(tmp_path, "x/v1", PROTO, GO, "x.example.com")
    module(tmp_path, "meta/v1", META)
    made = protos.table([tmp_path], {"k8s.io.api.x.v1"})
    assert made["groups"] == {"x.example.com/v1": "k8s.io.api.x.v1"}
    time = "k8s.io.apimachinery.pkg.apis.meta.v1.Time"
    assert made["messages"]["k8s.io.api.x.v1.Thing"] == [
        [1, "made", time, protos.KEEP],
        [2, "howMany", "int", protos.KEEP],  # a pointer: zero is kept
        [3, "name", "string", protos.KEEP],  # without omitempty JSON contains the empty string
        [4, "extras", "k8s.io.api.x.v1.Extra", protos.MAP],
        [5, "words", "string", protos.REPEATED],
        [6, "inner", "k8s.io.api.x.v1.Inner", protos.INLINE],
        [7, "plain", "int", 0],  # zero is dropped
    ]
    assert made["messages"]["k8s.io.api.x.v1.Extra"][0][1] == ""


def test_packages_that_are_not_served_are_left_out(tmp_path, protos):
    module(tmp_path, "x/v1", PROTO, GO, "x.example.com")
    module(tmp_path, "meta/v1", META)
    assert list(protos.table([tmp_path], set())["messages"]) == [
        "k8s.io.apimachinery.pkg.apis.meta.v1.Time"
    ]


def test_a_missing_message_stops_the_generator(tmp_path, protos):
    module(tmp_path, "x/v1", PROTO, GO, "x.example.com")
    with pytest.raises(SystemExit, match="Time"):
        protos.table([tmp_path], {"k8s.io.api.x.v1"})
