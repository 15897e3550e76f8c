"""Rules of CRDs, with schemas and values, for comparison with upstream.

``WRITTEN`` are rules that a CRD is created with; ``JUDGED`` also have values that objects are
created with, or changed from and to.
"""

import re
from typing import Any

TEXT, NUMBER = {"type": "string", "maxLength": 64}, {"type": "integer"}
FLOAT, FLAG = {"type": "number"}, {"type": "boolean"}
TIME, DATE = {"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}
DURATION, BYTES = {"type": "string", "format": "duration"}, {"type": "string", "format": "byte"}
EITHER = {"x-kubernetes-int-or-string": True}
PORT = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "port": NUMBER}}
PORTS = {
    "type": "array", "maxItems": 8, "items": PORT,
    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
}  # fmt: skip


def items(of: Any, most: int = 10, **more: Any) -> Any:
    return {"type": "array", "items": of, "maxItems": most, **more}


def table(of: Any, most: int = 10, **more: Any) -> Any:
    return {"type": "object", "additionalProperties": of, "maxProperties": most, **more}


SET = items(TEXT, **{"x-kubernetes-list-type": "set"})


def fields(**properties: Any) -> Any:
    return {"type": "object", "properties": properties}


OBJECT = fields(
    a=TEXT, b=NUMBER, c=FLOAT, d=FLAG, t=TIME, day=DATE, e=DURATION, f=BYTES, g=EITHER,
    list=items(TEXT), set=items(TEXT, **{"x-kubernetes-list-type": "set"}), ports=PORTS,
    map=table(NUMBER), maps=table(items(TEXT)), lists=items(items(NUMBER)),
    inner=fields(x=NUMBER, **{"a-b": TEXT, "namespace": TEXT, "a.b/c": TEXT, "__x": TEXT}),
    free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    any={"x-kubernetes-preserve-unknown-fields": True},
    nil={"type": "string", "nullable": True, "maxLength": 9},
    long={"type": "string"}, many={"type": "array", "items": {"type": "string"}},
    numbers={"type": "array", "items": NUMBER}, choice={"type": "string", "enum": ["x", "yy"]},
    **{"9lives": TEXT, "ünï": TEXT},
)  # fmt: skip
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"s": TEXT}}

_ON_OBJECT = """
true
1
"x"
self
self.a
self.a == "x"
self.a == 1
self.a != null
self.nosuch == 1
self.b > 0
self.b > 0.5
self.b == 1.0
self.c > 1
self.c == 1
self.c * 2.0 > 1.0
self.b + self.c > 1.0
self.d
!self.d
self.d && self.b > 1
self.d || self.nosuch
self.t < timestamp("2020-01-01T00:00:00Z")
self.t < "2020-01-01T00:00:00Z"
self.t.getFullYear() == 2020
self.day.getMonth() == 0
self.day == self.t
self.e > duration("1h")
self.e > "1h"
self.t + self.e > self.t
self.t - self.t > self.e
self.f == b"a"
self.f == "a"
string(self.f) == "a"
self.f.size() < 10
self.g == 5
self.g == "5%"
type(self.g) == string ? self.g == "5%" : self.g == 5
self.g.startsWith("5")
self.g + 1 > 0
int(self.g) > 1
self.list.all(x, x.size() > 1)
self.list.all(x, x > 1)
self.list[0] == "a"
self.list["a"] == "a"
self.list.exists(x, x == "a") && self.list.exists_one(x, x == "a")
self.list.map(x, x + "y").size() > 1
self.list.filter(x, x != "y").size() > 1
self.list.isSorted()
self.list.sum() == 1
self.list.min() == "a"
self.list.join(",").size() > 1
self.list.indexOf("a") == 0
self.list + ["b"] == self.set
self.set == ["a"]
"a" in self.list
1 in self.list
self.ports.all(p, p.port > 0)
self.ports.all(p, p.nosuch > 0)
self.ports.exists(p, p.name == "http" && p.port == 80)
self.ports.map(p, p.port).sum() > 1
self.ports.all(p, self.ports.exists_one(q, q.name == p.name))
self.map.all(k, self.map[k] > 0)
self.map.all(k, v, v > 0)
self.map.all(k, v, v == "a")
self.map.transformList(k, v, v).sum() > 1
self.map.transformMap(k, v, v * 2).size() > 1
self.map["a"] == 1
self.map.a == 1
self.map[1] == 1
"a" in self.map
has(self.map.a)
has(self.map)
has(self.a)
has(self.nosuch)
has(self)
self.?a.orValue("x") == "x"
self.?nosuch.orValue("x") == "x"
self.?inner.?x.orValue(1) == 1
self.maps["a"].all(x, x == "a")
self.maps.all(k, self.maps[k].size() > 1)
self.lists[0][0] == 1
self.lists.all(l, l.all(x, x > 1))
self.inner.x == 1
self.inner == self.inner
self.inner.a__dash__b == "x"
self.inner.__namespace__ == "x"
self.inner.namespace == "x"
self.inner.a__dot__b__slash__c == "x"
self.inner.__underscores__x == "x"
self.9lives == "x"
self.free.x == 1
has(self.free)
self.any == 1
has(self.any)
self.nil == "x"
self.nil == null
self.long == "x"
self.long.contains(self.long)
self.long.matches("^a+$")
self.long.matches(self.long)
self.long.replace("a", "bb").size() > 1
self.long.split("").all(x, x != "")
self.many.all(x, x != "")
self.many.all(x, self.many.exists(y, x == y))
self.many.isSorted()
self.many.join(",") != ""
self.numbers.all(x, x > 1)
self.numbers.all(x, self.numbers.all(y, x == y))
self.numbers.sum() > 1
self.numbers.map(x, x).sum() > 1
self.numbers.distinct().size() > 1
self.numbers.sort() == self.numbers
self.choice == "x"
self.choice.matches("x+")
self.metadata.name == "x"
self.kind == "x"
oldSelf.a == self.a
oldSelf.nosuch == 1
self.b >= oldSelf.b
oldSelf.hasValue()
cel.bind(x, self.a, x == "x")
self.a.matches("(")
self.a.find("[0-9]+") == "1"
self.a.find("(") == "1"
self.a.findAll("a").size() == 1
self.a.lowerAscii() == "x"
self.a.format([1]) == "x"
"%s".format([self.a]) == "x"
"%d".format([self.a]) == "x"
"%s %s".format([self.a]) == "x"
"%s".format([self.a, self.b]) == "x"
"%s".format([self.g]) == "x"
"%s".format([self.inner]) == "x"
duration("1x") == self.e
timestamp("2020") == self.t
duration(self.a) == self.e
timestamp(self.a) == self.t
quantity(self.a).isGreaterThan(quantity("1"))
quantity(self.g).isGreaterThan(quantity("1"))
isQuantity(self.a)
semver(self.a).major() == 1
ip(self.a).family() == 4
isIP(self.a) && isCIDR(self.a) && isURL(self.a)
cidr(self.a).containsIP("1.2.3.4")
url(self.a).getHost() == "x"
format.dns1123Label().validate(self.a).hasValue()
!format.named("uri").value().validate(self.a).hasValue()
sets.contains(self.list, ["a"])
sets.contains(self.list, [1])
sets.equivalent(self.list, self.set)
[1, 2, 3].exists(x, x == self.b)
[1, "a"].exists(x, x == self.b)
{"a": 1, "b": 2}[self.a] == self.b
{"a": 1, "b": "c"}[self.a] == self.b
self.b in [1, 2]
self.a in {"x": 1}
self.b < 9223372036854775807
self.b < 9223372036854775808
self.b / 0 == 1
self.b % 2 == 0
-self.b == 1
-self.a == "x"
self.a + "x" == "xx"
self.a + 1 == "x1"
self.list.size() == 1 && size(self.list) == 1
self.list.first().value() == "a"
self.list.slice(0, 1) == ["a"]
self.list.reverse().size() == 1
[self.list].flatten().size() == 1
lists.range(self.b).size() == 1
lists.range(3).all(i, i < 3)
self.ports.sortBy(p, p.port).size() > 1
optional.of(self.a).optMap(x, x + "y").value() == "xy"
self.a ==
self..a
(self.a == "x"
self.a == 'x' && self.b == 1 || self.d
self.a == "x" // a comment
string(self.b) == "1" && int(self.a) == 1 && double(self.a) > 1.0
bool(self.a)
dyn(self.a) == 1
type(self.a) == string
type(self.inner) == object
self == oldSelf
self.ports == oldSelf.ports
self.list == oldSelf.list
self.a.charAt(0) == "x" && self.a.substring(1, 2) == "x" && self.a.trim() == "x"
self.a.reverse() == "x"
authorizer.path("/x").check("get").allowed()
request.name == "x"
self.ports.all(p, self.ports.all(q, self.ports.all(r, self.ports.all(s, p.name == s.name))))
self.list.all(x, self.list.all(y, self.list.all(z, x.contains(y) && y.contains(z))))
self.list.all(x, x.matches("^[a-z]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))
""".strip().splitlines()

_REF = fields(
    group={"type": "string", "maxLength": 253, "default": "g"}, kind=TEXT, name=TEXT,
    namespace=TEXT, sectionName=TEXT, port={"type": "integer", "minimum": 1},
)  # fmt: skip
_MATCH = fields(path=fields(type=TEXT, value={"type": "string", "maxLength": 1024}), method=TEXT)
_FILTER = fields(type=TEXT, redirect=fields(path=fields(type=TEXT, prefix=TEXT)), header=TEXT)
ROUTE = fields(
    refs=items(_REF, 32), matches=items(_MATCH, 8), filters=items(_FILTER, 16),
    timeouts=fields(request=TEXT, backend=TEXT), percent=NUMBER,
    fraction=fields(numerator=NUMBER, denominator={"type": "integer", "default": 100}),
    labels=table({"type": "string", "maxLength": 63}, 100), cidrs=items(TEXT, 16),
    requirements=items(fields(
        key=TEXT, operator=TEXT, values=items(TEXT, 50), minValues=NUMBER), 100),
    budgets=items(fields(nodes={**EITHER, "maxLength": 20}, schedule=TEXT, duration=DURATION), 50),
    quota=table({**EITHER, "maxLength": 20}, 16),
    conditions=items(fields(type=TEXT, status=TEXT), 16),
    flavors=items(fields(name=TEXT, resources=items(fields(name=TEXT), 16)), 16),
    covered=items(TEXT, 16), role=TEXT, profile=TEXT,
)  # fmt: skip
"""A schema in the manner of routes, node pools and queues."""
_ROUTE_RULES = r"""
self.refs.all(a, self.refs.exists_one(b, a.name == b.name && (has(a.port) && has(b.port) ? \
    a.port == b.port : !has(a.port) && !has(b.port))))
self.refs.all(a, self.refs.all(b, a.group == b.group && a.kind == b.kind && \
    (((!has(a.__namespace__) || a.__namespace__ == '') && (!has(b.__namespace__) || \
    b.__namespace__ == '')) || (has(a.__namespace__) && has(b.__namespace__) && a.__namespace__ \
    == b.__namespace__)) ? (!has(a.sectionName) == !has(b.sectionName)) : true))
self.refs.all(r, (size(r.group) == 0 && r.kind == 'Service') ? has(r.port) : true)
self.matches.all(m, m.path.type in ['Exact', 'Prefix'] ? m.path.value.startsWith('/') && \
    !m.path.value.contains('//') : true)
self.matches.all(m, \
    m.path.value.matches(r"^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$"))
self.matches.all(m, !m.path.value.matches(r'.*\.\./.*') && !m.path.value.endsWith('/..'))
(has(self.filters) && self.filters.exists_one(f, has(f.redirect) && has(f.redirect.path) && \
    f.redirect.path.type == 'Prefix')) ? ((size(self.matches) != 1 || \
    !has(self.matches[0].path)) ? false : true) : true
self.filters.filter(f, f.type == 'Header').size() <= 1 && !self.filters.exists(f, has(f.header) \
    && f.type != 'Header')
!(has(self.timeouts.request) && has(self.timeouts.backend) && duration(self.timeouts.request) != \
    duration('0s') && duration(self.timeouts.backend) > duration(self.timeouts.request))
!(has(self.percent) && has(self.fraction)) && self.fraction.numerator <= self.fraction.denominator
self.labels.all(k, k in ['a.io/x', 'b.io/y'] || !k.find('^([^/]+)').endsWith('a.io'))
self.labels.all(k, k != 'a.io/pool' && !k.startsWith('b.io'))
self.requirements.all(x, x.operator == 'In' ? x.values.size() != 0 : true)
self.requirements.all(x, (x.operator == 'Gt' || x.operator == 'Lt') ? (x.values.size() == 1 && \
    int(x.values[0]) >= 0) : true)
self.requirements.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= \
    x.minValues : true)
self.requirements.all(x, x.key != 'zone' || x.values.all(v, v.matches('^[a-z]+-[0-9][a-z]$')))
self.budgets.all(x, has(x.schedule) == has(x.duration))
self.budgets.all(b, type(b.nodes) == int ? b.nodes >= 0 : \
    b.nodes.matches('^((100|[0-9]{1,2})%|[0-9]+)$'))
has(self.role) != has(self.profile)
self.role == oldSelf.role && (has(oldSelf.profile) == has(self.profile))
has(oldSelf.role) || !has(self.role)
self.flavors.all(x, size(x.resources) == size(self.covered)) && self.flavors.all(x, \
    x.resources.all(r, r.name in self.covered))
(has(self.conditions) && self.conditions.exists(c, c.type == 'Reserved' && c.status == 'True')) \
    ? self.flavors == oldSelf.flavors : true
self.quota.all(k, quantity(string(self.quota[k])).compareTo(quantity('0')) >= 0)
self.quota.exists(k, k == 'cpu') ? isQuantity(string(self.quota['cpu'])) : true
self.cidrs.all(c, isCIDR(c)) && self.cidrs.all(c, cidr(c).ip().family() == 4 || \
    cidr(c).prefixLength() >= 64)
self.cidrs.all(a, self.cidrs.filter(b, a != b).all(b, !cidr(a).containsCIDR(cidr(b))))
[has(self.role), has(self.profile), has(self.percent)].exists_one(x, x)
[has(self.role), has(self.profile)].filter(x, x == true).size() == 1
self.covered.map(x, x.split('/')[0]).all(x, x.size() > 0) && self.covered.size() == \
    self.covered.map(x, x).size()
self.?timeouts.?request.optMap(t, duration(t) <= duration('1h')).orValue(true)
dyn(self.percent) == 1 || self.?labels['a'].orValue('') == 'x' || self.labels[?'b'].hasValue()
"""
_ON_ROUTES = re.sub(r"\\\n *", "", _ROUTE_RULES).strip().splitlines()

WRITTEN: list[tuple[Any, dict[str, Any]]] = [
    *((ROUTE, {"rule": rule}) for rule in _ON_ROUTES),
    *((OBJECT, {"rule": rule}) for rule in _ON_OBJECT),
    *((OBJECT, {"rule": rule, "optionalOldSelf": True}) for rule in (
        "!oldSelf.hasValue() || oldSelf.value().a == self.a", "oldSelf.a == self.a", "self.d",
        "oldSelf.?a.orValue('x') == self.a", "oldSelf.optMap(o, o.b < self.b).orValue(true)",
        "self == oldSelf", "oldSelf.orValue(self).b == self.b",
    )),
    (OBJECT, {"rule": "self.d", "optionalOldSelf": False}),
    (OBJECT, {"rule": ""}), (OBJECT, {"rule": "  "}), (OBJECT, {"message": "x"}),
    (OBJECT, {"rule": "self.d", "message": " "}), (OBJECT, {"rule": "self.d", "message": "a\nb"}),
    (OBJECT, {"rule": "self.d\n&& true"}), (OBJECT, {"rule": "self.d\n&& true", "message": "x"}),
    *((OBJECT, {"rule": "self.d", "messageExpression": text}) for text in (
        "'x'", "self.a", "self.b", "'a' + string(self.b)", "self.nosuch", "'%s'.format([self.b])",
        " ", "1", "oldSelf.a", "self.long.replace('', self.long)", "self.list.join(',')",
        "'%d'.format([self.a])", "self.long + self.long",
    )),
    *((OBJECT, {"rule": "self.d", "fieldPath": path}) for path in (
        ".a", ".nosuch", "a", ".inner.x", ".inner['a-b']", ".map.a", ".map['a']", ".list[0]",
        ".ports", " ", ".", ".inner['a-b", ".inner.x.y", ".a\n", ".free.x", "['a']",
    )),
    *((OBJECT, {"rule": "self.d", "reason": reason}) for reason in (
        "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate",
        "FieldValueNotSupported", "Nonsense",
    )),
    (TEXT, {"rule": "self == 'x'"}), (TEXT, {"rule": "self > 1"}),
    (TEXT, {"rule": "self == oldSelf"}), (NUMBER, {"rule": "self > 0"}),
    (NUMBER, {"rule": "self > 0.5"}), (FLOAT, {"rule": "self > 0"}), (FLAG, {"rule": "self"}),
    (TIME, {"rule": "self > timestamp('2020-01-01T00:00:00Z')"}),
    (DURATION, {"rule": "self <= duration('24h')"}), (BYTES, {"rule": "self.size() == 3"}),
    (DATE, {"rule": "self.getDayOfWeek() == 0"}), (EITHER, {"rule": "self == 1 || self == 'a'"}),
    (items(TEXT), {"rule": "self.all(x, x != '')"}), (items(NUMBER), {"rule": "self.sum() > 1"}),
    ({"type": "array", "items": TEXT}, {"rule": "self.all(x, x != '')"}),
    ({"type": "array", "items": TEXT}, {"rule": "self.all(x, self.exists_one(y, x == y))"}),
    (items({**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}), {"rule": "true"}),
    (items({**TEXT, "x-kubernetes-validations": [{"rule": "self != ''"}]}), {"rule": "true"}),
    ({"type": "array", "items": {**TEXT, "x-kubernetes-validations": [
        {"rule": "self.matches('^[a-z]+$')"}]}}, {"rule": "true"}),
    ({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [
        {"rule": "self.matches('^[a-z]+$')"}]}}, {"rule": "true"}),
    ({**PORTS, "items": {**PORT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}},
     {"rule": "true"}),
    (table({**NUMBER, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}),
     {"rule": "true"}),
    ({"type": "object", "additionalProperties": {**TEXT, "x-kubernetes-validations": [
        {"rule": "self != 'x'"}]}}, {"rule": "self.size() > 1"}),
    ({**fields(x={**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}),
      "x-kubernetes-map-type": "atomic"}, {"rule": "true"}),
    ({**TEXT, "allOf": [{"x-kubernetes-validations": [{"rule": "self != 'x'"}]}]},
     {"rule": "true"}),
    ({**TEXT, "allOf": [{"x-kubernetes-validations": [{"rule": "self > 1"}]}]}, {"rule": "true"}),
    ({**TEXT, "anyOf": [{"x-kubernetes-validations": [{"rule": "self != 'x'"}]}]},
     {"rule": "true"}),
    (EMBEDDED, {"rule": "self.metadata.name == 'x' && self.kind == 'Pod' && self.s == ''"}),
    (EMBEDDED, {"rule": "self.metadata.labels.size() == 1"}),
    ({"type": "object"}, {"rule": "true"}), ({"type": "object"}, {"rule": "self.x == 1"}),
    ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"rule": "has(self.x)"}),
]  # fmt: skip


def _rule(text: str, **more: Any) -> dict[str, Any]:
    return {"rule": text, **more}


ABSENT = object()
JUDGED: list[tuple[Any, dict[str, Any], list[Any]]] = [
    (TEXT, _rule("self == 'x'"), ["x", "y"]),
    (TEXT, _rule("self == 'x'", message="is not x"), ["x", "y"]),
    (TEXT, _rule("self == 'x'", messageExpression="self + ' is not x'"), ["x", "y"]),
    (TEXT, _rule("self == 'x'", messageExpression="self + '\\n'", message="m"), ["y"]),
    (TEXT, _rule("self == 'x'", messageExpression="[self][int(self)]", message="m"), ["y"]),
    (TEXT, _rule("self == 'x'", reason="FieldValueForbidden"), ["y"]),
    (TEXT, _rule("self == 'x'", reason="FieldValueRequired"), ["y"]),
    (TEXT, _rule("self == 'x'", reason="FieldValueDuplicate"), ["y"]),
    (TEXT, _rule("self.matches('^[a-z]+$')"), ["abc", "ABC", ""]),
    (TEXT, _rule("self.size() == 2"), ["ab", "äö", "abc"]),
    (TEXT, _rule("int(self) > 5"), ["6", "5", "x"]),
    (TEXT, _rule("self.lowerAscii() == 'ab' && self.upperAscii() == 'AB'"), ["aB", "x"]),
    (TEXT, _rule("self.split(',').all(x, x.trim() != '')"), ["a, b", "a,", ""]),
    (TEXT, _rule("self.find('[0-9]+') == '12'"), ["ab12c3", "3"]),
    (TEXT, _rule("self.findAll('[0-9]').size() == 2"), ["a1b2", "1"]),
    (TEXT, _rule("self.replace('a', 'b') == 'bb'"), ["ab", "aa", "a"]),
    (TEXT, _rule("self.charAt(0) == 'a' && self.substring(1) == 'b'"), ["ab", "ba", ""]),
    (TEXT, _rule("isQuantity(self) && quantity(self).isGreaterThan(quantity('1Gi'))"),
     ["2Gi", "1Mi", "1K", "x"]),
    (TEXT, _rule("quantity(self).add(quantity('1')).asInteger() == 3"), ["2", "2500m", "x"]),
    (TEXT, _rule("semver(self).isLessThan(semver('1.2.3'))"), ["1.2.3-rc", "1.2.3", "v1"]),
    (TEXT, _rule("isIP(self) && ip(self).family() == 6"), ["::1", "1.2.3.4", "x"]),
    (TEXT, _rule("cidr('10.0.0.0/8').containsIP(self)"), ["10.1.2.3", "11.0.0.1", "x"]),
    (TEXT, _rule("isCIDR(self) && cidr(self) == cidr(self).masked()"),
     ["10.0.0.0/8", "10.0.0.1/8", "x"]),
    (TEXT, _rule("isURL(self) && url(self).getScheme() == 'https'"),
     ["https://a.com", "http://a.com", "a b", "/x"]),
    (TEXT, _rule("url(self).getQuery()['a'] == ['1', '2']"), ["/?a=1&a=2", "/?a=1", "/"]),
    (TEXT, _rule("!format.dns1123Label().validate(self).hasValue()"), ["ab", "A", "a.b"]),
    (TEXT, _rule("!format.qualifiedName().validate(self).hasValue()"), ["a.com/b", "/", "-"]),
    (TEXT, _rule("!format.uuid().validate(self).hasValue()"),
     ["123e4567-e89b-12d3-a456-426614174000", "x"]),
    (NUMBER, _rule("self > 0"), [1, 0, -1]),
    (NUMBER, _rule("self > 0.5"), [1, 0]),
    (NUMBER, _rule("10 / self == 2"), [5, 2, 0]),
    (NUMBER, _rule("self % 2 == 0"), [2, 3]),
    (NUMBER, _rule("self + 9223372036854775807 > 0"), [0, 1]),
    (FLOAT, _rule("self > 1"), [1.5, 2, 1, 0.5]),
    (FLOAT, _rule("self == 2.0"), [2, 2.0, 3]),
    (FLAG, _rule("self"), [True, False]),
    (TIME, _rule("self > timestamp('2020-01-01T00:00:00Z')"),
     ["2021-01-01T00:00:00Z", "2019-01-01T00:00:00Z", "2020-01-01T01:00:00.5+02:00"]),
    (TIME, _rule("self.getFullYear() == 2021 && self.getMonth() == 0"),
     ["2021-01-31T00:00:00Z", "2021-02-01T00:00:00Z"]),
    (DATE, _rule("self.getDayOfWeek() == 1"), ["2024-01-01", "2024-01-02"]),
    (DURATION, _rule("self <= duration('24h')"), ["1h", "25h", "24h", "90m30s"]),
    (DURATION, _rule("self.getHours() == 1"), ["90m", "2h"]),
    (BYTES, _rule("self == b'abc'"), ["YWJj", "YQ=="]),
    (BYTES, _rule("self.size() == 1"), ["YWJj", "YQ=="]),
    (EITHER, _rule("type(self) == string ? self.endsWith('%') : self > 5"), ["5%", "5", 6, 5]),
    (EITHER, _rule("self > 5"), [6, 5, "x"]),
    (EITHER, _rule("self == '5' || self == 5"), ["5", 5, 6]),
    (items(TEXT), _rule("self.all(x, x.startsWith('a'))"), [["a", "ab"], ["a", "b"], []]),
    (items(TEXT), _rule("self.isSorted() && self.size() > 0"), [["a", "b"], ["b", "a"], []]),
    (items(TEXT), _rule("self.exists_one(x, x == 'a')"), [["a", "b"], ["a", "a"], []]),
    (items(TEXT), _rule("self.join('-') == 'a-b'"), [["a", "b"], ["b"]]),
    (items(TEXT), _rule("sets.contains(self, ['a', 'b'])"), [["b", "a", "c"], ["a"]]),
    (items(TEXT), _rule("self[0] == 'a'"), [["a"], ["b"], []]),
    (items(TEXT), _rule("self.indexOf('b') == 1 && self.lastIndexOf('b') == 2"),
     [["a", "b", "b"], ["b"]]),
    (items(NUMBER), _rule("self.sum() == 6 && self.max() == 3"), [[1, 2, 3], [6], []]),
    (items(NUMBER), _rule("self.map(x, x * 2).filter(x, x > 2).size() == 1"), [[1, 2], [2, 3]]),
    (items(NUMBER), _rule("self.sort() == [1, 2, 3]"), [[3, 1, 2], [1]]),
    (items(NUMBER), _rule("self.distinct().size() == self.size()"), [[1, 2], [1, 1]]),
    (items(FLOAT), _rule("self.sum() == 3.5"), [[1.5, 2], [1]]),
    (items(DURATION), _rule("self.sum() == duration('61s')"), [["1m", "1s"], ["1s"], []]),
    (items(TIME), _rule("self.max().getFullYear() == 2021"),
     [["2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"], ["2020-01-01T00:00:00Z"], []]),
    (table(NUMBER), _rule("self.all(k, self[k] > 0)"), [{"a": 1}, {"a": 0}, {}]),
    (table(NUMBER), _rule("self.exists(k, v, k == 'a' && v == 1)"), [{"a": 1}, {"a": 2}]),
    (table(NUMBER), _rule("self.transformMap(k, v, v + 1) == {'a': 2}"), [{"a": 1}, {"b": 1}]),
    (table(NUMBER), _rule("'a' in self && self['a'] == 1"), [{"a": 1}, {"b": 1}]),
    (table(NUMBER), _rule("self.a == 1"), [{"a": 1}, {"b": 1}]),
    (SET, _rule("self == ['a', 'b']"), [["a", "b"], ["b", "a"], ["a"], ["a", "c"]]),
    (SET, _rule("['a', 'b'] == self"), [["a", "b"], ["b", "a"]]),
    (SET, _rule("self != ['a', 'b']"), [["b", "a"], ["a"]]),
    (SET, _rule("self + ['b', 'c'] == ['a', 'b', 'c']"), [["b", "a"], ["a", "d"]]),
    (SET, _rule("(self + ['b']).size() == 2"), [["b", "a"], ["a", "c"], ["b"]]),
    (fields(s=SET, t=SET), _rule("self.s == self.t"), [
        {"s": ["a", "b"], "t": ["b", "a"]}, {"s": ["a"], "t": ["b"]}]),
    (items(fields(s=SET)), _rule("self.all(x, x.s == ['a', 'b'])"), [
        [{"s": ["b", "a"]}], [{"s": ["b"]}]]),
    (table(SET), _rule("self.all(k, v, v == ['a', 'b']) && self['k'] == ['b', 'a']"), [
        {"k": ["b", "a"]}, {"k": ["b"]}]),
    (PORTS, _rule("(self + self).size() == self.size()"), [[{"name": "a"}, {"name": "b"}]]),
    (PORTS, _rule("self.exists(p, p.name == 'http' && p.port == 80)"),
     [[{"name": "http", "port": 80}], [{"name": "x"}], [{"name": "http"}]]),
    (PORTS, _rule("self.all(p, !has(p.port) || p.port > 0)"),
     [[{"name": "a"}], [{"name": "a", "port": 0}]]),
    *((ROUTE, _rule(rule), [
        {}, {"role": "r", "percent": 5, "labels": {"a.io/x": "x"}, "cidrs": ["10.0.0.0/8"]},
        {"profile": "p", "labels": {"a.io/pool": "x"}, "cidrs": ["10.0.0.0/8", "10.1.0.0/16"],
         "fraction": {"numerator": 5}, "quota": {"cpu": "1", "memory": 5}, "covered": ["a", "b"]},
        {"refs": [{"name": "a", "kind": "Service"}, {"name": "a", "kind": "x", "port": 1}],
         "matches": [{"path": {"type": "Exact", "value": "/a"}}], "filters": [{"type": "Header"}],
         "timeouts": {"request": "1s", "backend": "2s"}, "conditions": [],
         "requirements": [{"key": "zone", "operator": "Gt", "values": ["5"], "minValues": 2}],
         "budgets": [{"nodes": "10%", "schedule": "x", "duration": "1h"}, {"nodes": 5}],
         "flavors": [{"name": "f", "resources": [{"name": "a"}]}], "covered": ["a"]},
    ]) for rule in _ON_ROUTES),
    (fields(a=TEXT, b=TEXT), _rule("has(self.a) != has(self.b)"),
     [{"a": "x"}, {"a": "x", "b": "y"}, {}]),
    (fields(a=TEXT, b=TEXT), _rule("self.?a.orValue('none') == 'none'"), [{}, {"a": "x"}]),
    (fields(a=TEXT, b=TEXT), _rule("self.a == 'x'", fieldPath=".a"), [{"a": "y"}, {}]),
    (fields(a=TEXT, b=TEXT), _rule("self == {'a': 'x'}"), []),
    (fields(**{"a-b": TEXT, "namespace": TEXT}),
     _rule("self.a__dash__b == self.__namespace__"),
     [{"a-b": "x", "namespace": "x"}, {"a-b": "x", "namespace": "y"}]),
    (EMBEDDED, _rule("self.metadata.name == 'n' && self.kind == 'Pod'"),
     [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}},
      {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m"}}]),
]  # fmt: skip

CHANGED: list[tuple[Any, dict[str, Any], list[tuple[Any, Any]]]] = [
    (TEXT, _rule("self == oldSelf"), [("x", "x"), ("x", "y"), (ABSENT, "x"), ("x", ABSENT)]),
    (NUMBER, _rule("self >= oldSelf"), [(1, 2), (2, 1), (ABSENT, 1)]),
    (NUMBER, _rule("!oldSelf.hasValue() || self >= oldSelf.value()", optionalOldSelf=True),
     [(1, 2), (2, 1), (ABSENT, 1)]),
    (NUMBER, _rule("oldSelf.hasValue() || self == 0", optionalOldSelf=True),
     [(0, 2), (ABSENT, 1), (ABSENT, 0)]),
    (NUMBER, _rule("oldSelf.orValue(7) == 7", optionalOldSelf=True), [(7, 1), (0, 1)]),
    (TEXT, _rule("oldSelf.optMap(o, o == self).orValue(self == 'new')", optionalOldSelf=True),
     [("a", "a"), ("a", "b"), (ABSENT, "new"), (ABSENT, "x")]),
    (TIME, _rule("self > oldSelf"), [("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.1Z"),
                                     ("2020-01-01T00:00:00Z", "2019-01-01T00:00:00Z")]),
    (items(TEXT), _rule("oldSelf.all(x, x in self)"), [(["a"], ["b", "a"]), (["a"], ["b"])]),
    (SET, _rule("self == oldSelf"), [(["a", "b"], ["b", "a"]), (["a", "b"], ["a", "c"])]),
    (PORTS, _rule("self == oldSelf"), [
        ([{"name": "a"}, {"name": "b", "port": 1}], [{"name": "b", "port": 1}, {"name": "a"}]),
        ([{"name": "a"}, {"name": "b", "port": 1}], [{"name": "a"}, {"name": "b", "port": 2}])]),
    (PORTS, _rule("(oldSelf + self).exists(p, p.name == 'b' && p.port == 2)"), [
        ([{"name": "b", "port": 1}], [{"name": "b", "port": 2}]),
        ([{"name": "b", "port": 2}], [{"name": "b", "port": 1}])]),
    (PORTS, _rule("self.size() >= oldSelf.size()"), [
        ([{"name": "a"}], [{"name": "a"}, {"name": "b"}]), ([{"name": "a"}], [])]),
    ({**PORTS, "items": {**PORT, "x-kubernetes-validations": [
        {"rule": "self.port == oldSelf.port"}]}}, _rule("true"),
     [([{"name": "a", "port": 1}], [{"name": "b", "port": 2}, {"name": "a", "port": 1}]),
      ([{"name": "a", "port": 1}], [{"name": "a", "port": 2}])]),
    (table({**NUMBER, "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}), _rule("true"),
     [({"a": 1}, {"a": 2, "b": 0}), ({"a": 1}, {"a": 0})]),
    (fields(a=TEXT, b=NUMBER), _rule("self.a == 'x'"), [
        ({"a": "y"}, {"a": "y"}), ({"a": "y"}, {"a": "y", "b": 1}), ({"a": "x"}, {"a": "y"})]),
]  # fmt: skip

DIFFERENT_MESSAGES: dict[tuple[Any, ...], str] = {
    ("semver(self).isLessThan(semver('1.2.3'))", "v1"): "the text of the parser of versions",
    ("cidr('10.0.0.0/8').containsIP(self)", "x"): "upstream hides that the address is wrong",
    ("self > 5", "x"): "upstream shows the type of the schema, which int-or-string has not",
}
"""Rules and values whose error is in other words than upstream's, and why."""
