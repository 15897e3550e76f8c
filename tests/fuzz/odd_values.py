"""Names and values for requests, valid and odd ones.

There are few names, so that references often point to existing objects.
"""

from __future__ import annotations

from holdfast.api import reservation_names as reservation_keys

NAMESPACES = ("default", "one", "two", "kube-system")
NAMES = ("a", "b", "c", "web", "n1", "n2", "gpu", "wait", "high", "r", "x")
LABEL_KEYS = ("app", "zone", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "pool")
LABEL_VALUES = ("web", "a", "b", "n1", "", "1")
RESOURCES = (
    "cpu", "memory", "pods", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "storage",
)  # fmt: skip
FINALIZERS = ("example.com/hold", "foregroundDeletion", "orphan", "kubernetes", "bad finalizer")

TEXTS = (
    "", " ", "a", "x" * 64, "x" * 254, "x" * 20_000, "UPPER", "-a", "a.", "a/b", "a/b/c", "..", "/",
    "%2f", "{}", "[]", "null", "true", "1", "-1", "0", "1e400", "NaN", "Infinity", "a\nb", "a\r\nb",
    "\x00", "\x1b[31m", "\x7f", "\u2028", "é", "日本", "\U0001f600", "\ud800", "\ufeff", "a\tb",
    "${X}", "{{.}}", "' or 1=1", "^(a+)+$", "(", "[a-", "a=b", "!a", "a in (b)", "=,=", "*", "%s%n",
    "self.x == 1", "has(self.x)", "self", "true && ", "$", ".spec", ".a[", "{.a}", "~1", "~2",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 100, 101, 65535, 65536, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63,
    -(2**63), 10**30, -(10**30), 0.5, -0.0, 1e300, 1.5e-300,
)  # fmt: skip
QUANTITIES = (
    "1", "0", "100m", "1Gi", "-1", "1e3", "1E400", "0.1n", "9223372036854775807",
    "9223372036854775808", "1" + "0" * 40, "Ki", "1Kii", "1e", "", ".5", "5.", "+1", "1 ", "0x1",
    "1e-30", "0.000000000000000001", "1e99999999999", "999999999999Ei", 5, -5, 0.3, 2**63, 10**30,
)  # fmt: skip
DURATIONS = ("1h", "0s", "-1s", "1h30m", "999999999h", "1", "", "1ns", "1.5h", "1d", "abc")
TIMES = (
    "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123456Z", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z", "2024-01-01T00:00:00+23:59", "2024-02-30T00:00:00Z", "now", "",
    "1969-12-31T23:59:59Z", "2024-01-01", "10000-01-01T00:00:00Z", 5, None,
)  # fmt: skip
INT_OR_STRINGS = (
    0, 1, 3, "25%", "100%", "0%", "-1%", "1000000%", "Ki", "%", "abc", "", "1", -1, 2**31, 10**30,
    "99999999999999999999%", "1.5%", 1.5, "http", "٣%",
)  # fmt: skip
COUNTS_OF_PODS = ("replicas", "minReplicas", "maxReplicas", "parallelism", "completions")
REPLICAS = (0, 1, 2, 3, -1, -(2**31), 2**31, 10**30, "3", 1.5)
"""Contains no large valid number, because creating so many pods takes too long."""
RAW_BODIES = (
    b"", b"{", b"}", b"[]", b"null", b"1", b'"a"', b"{}{}", b"\xff\xfe", b"\xef\xbb\xbf{}",
    b'{"a":1,"a":2}', b'{"metadata":{"name":"a"},"metadata":{"name":"b"}}', b"[" * 50_000,
    b'{"a":' * 50_000, b'{"metadata":{"name":"\\ud800"}}', b"{" + b" " * 100_000 + b"}", b"NaN",
    b'{"spec":{"replicas":1e999}}', b'{"spec":{"replicas":' + b"9" * 5_000 + b"}}", b"a: b\n- c",
    b"a: &x b\nc: *x", b"k8s\x00", b"k8s\x00\xff\xff\xff", b"k8s\x00" + b"\x0a\x7f" * 100,
    b"%YAML 9.9\n---\n", b"a: !!python/object:os.system {}", b"? a\n: b", b"\x00", b"--- \n---\n",
)  # fmt: skip
MEDIA = (
    "", "text/plain", "application/xml", "application/json; charset=latin-1", "application/json;",
    "application/vnd.kubernetes.protobuf", "application/yaml", "*/*", "APPLICATION/JSON", "a" * 500,
    "application/merge-patch+json", "application/cbor", "application/x-www-form-urlencoded", ";;;",
)  # fmt: skip
PATCHES = (
    "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json", "application/apply-patch+yaml",
    "application/apply-patch+cbor", "application/json", "application/json-patch+json; a=b",
)  # fmt: skip
_META = "g=meta.k8s.io;v=v1"
FORMS = (
    "application/json", f"application/json;as=Table;{_META}", "application/yaml",
    f"application/json;as=PartialObjectMetadataList;{_META}",
    f"application/json;as=PartialObjectMetadata;{_META}",
)  # fmt: skip
ACCEPTS = (
    *FORMS, "*/*", "", f"application/json;as=Table;g=meta.k8s.io;v=v1beta1,{FORMS[0]}",
    "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,*/*;q=0.1",
    "application/json;as=Nonsense;g=x;v=y", "image/png", ";q=", "application/json;q=abc", ",,,",
    "application/json;stream=watch", "*/*;q=nan", f"application/yaml;as=Table;{_META}", "a/b;c;d=",
)  # fmt: skip
SELECTORS = (
    "app=web", "app!=web", "app in (a,b)", "app notin (a)", "app", "!app", "a=b=c", "app in", ",",
    "=", "x in (", "app>1", "app<a", "a" * 5_000 + "=b", "app==web,zone=a", "\x00", "é=1", " ",
    "app in (),zone", "-=-", "(" * 2_000,
)  # fmt: skip
FIELD_SELECTORS = (
    "metadata.name=a", "metadata.namespace=default", "spec.nodeName=n1", "status.phase!=Running",
    "metadata.name=a,spec.nodeName=", "spec.foo=1", "nonsense", "=", "\\", "metadata.name=\\",
    "metadata.name==a\\,b", "spec.unschedulable=true", "a=b=c", ",,",
)  # fmt: skip
VERSIONS = (
    "0", "1", "5", "-1", "abc", "", "99999999999", "18446744073709551616", "9" * 4_400, "1.5",
    " 1", "٣", "0x5", "00",
)  # fmt: skip
COUNTS = ("0", "1", "2", "3", "500", "-1", "abc", "9" * 400, "", "1.5", "9223372036854775807")
CONTINUES = (
    "!!", "", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5OTk5OTk5LCJzdGFydCI6ImEifQ",
    "bnVsbA", "W10", "eyJ2IjoxLCJydiI6bnVsbCwic3RhcnQiOltdfQ", "a" * 3_000, "=", "/w==",
)  # fmt: skip
SCHEDULING_KEYS = (
    *(key for name, key in sorted(vars(reservation_keys).items()) if name.isupper()),
    "deployment.kubernetes.io/revision",
    "controller.kubernetes.io/pod-deletion-cost", "pod-template-hash", "app",
    "batch.kubernetes.io/job-tracking", "resource.kubernetes.io/pod-claim-name",
    "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bind-completed",
    "storageclass.kubernetes.io/is-default-class", "node.kubernetes.io/instance-type",
    "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas",
)  # fmt: skip
SCHEDULING_VALUES = (
    "", "true", "false", "1", "-1", "99999999999999999999", "{}", "[]", "null", "{", "5", "abc",
    '{"resources": {"cpu": "1"}}', '{"resources": {"cpu": "Ki"}}', '{"resources": 5}', "1.5", "n1",
    '{"name": "r", "uid": "x"}', '{"resourceNames": ["cpu"]}', '{"resourceNames": 5}',
    '{"name": 5}', '{"reservationSelector": {"app": "web"}}', '{"tolerations": [{"key": 5}]}',
    '{"requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": [{}]}}',
    '[{"uid": "x", "resources": {"cpu": "1"}}]', "[" * 500, '{"a":' * 300, "x" * 5_000,
    '{"resources": {"cpu": "1e400"}}', "0001", "٣", "1e5", "-0", "NaN", '{"resources": null}',
)  # fmt: skip
LABELLED = ("", "true", "1", "-1", "web", "n1", "9" * 40, "x" * 63, "1.5", "a.b", "0")
IMPERSONATIONS: tuple[dict[str, str], ...] = (
    {"impersonate-user": "u"}, {"impersonate-user": "system:node:n1"}, {"impersonate-group": "g"},
    {"impersonate-user": "u", "impersonate-group": "system:masters"}, {"impersonate-uid": "x"},
    {"impersonate-user": "system:anonymous"}, {"impersonate-user": "x" * 3_000},
    {"impersonate-user": "u", "impersonate-extra-a%zz": "b", "impersonate-uid": "1"},
    {"impersonate-user": "system:serviceaccount:default:a", "impersonate-extra-": "b"},
)  # fmt: skip
